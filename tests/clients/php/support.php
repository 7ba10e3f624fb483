<?php

declare(strict_types=1);

// Helpers of the tests: connections to the server, checks, waiting for a condition, worker processes.

set_error_handler(function (int $level, string $message, string $file, int $line): bool {
    // Deprecations are ignored, because Debian's Illuminate is older than its PHP.
    return (bool) ($level & (E_DEPRECATED | E_USER_DEPRECATED)) || throw new ErrorException($message, 0, $level, $file, $line);
});

function connect(Redis $redis = new Redis()): Redis
{
    $redis->connect('127.0.0.1', (int) getenv('REDIS_PORT'));
    $redis->setOption(Redis::OPT_READ_TIMEOUT, -1);
    return $redis;
}

function same(string $what, mixed $got, mixed $wanted): void
{
    if ($got !== $wanted) {
        throw new Exception("$what: " . var_export($got, true) . ' instead of ' . var_export($wanted, true));
    }
}

function ok(string $what, bool $is): void
{
    same($what, $is, true);
}

/** The message of the exception with which the client or the package refuses. */
function refused(callable $function): string
{
    try {
        $function();
    } catch (Redislock\LockError | RedisException | RedisClusterException $error) {
        return $error->getMessage();
    }
    throw new Exception('nothing was thrown');
}

/** @param class-string<Throwable> $kind */
function throws(string $what, string $kind, callable $function): Throwable
{
    try {
        $function();
    } catch (Throwable $error) {
        ok("$what: $error", $error instanceof $kind);
        return $error;
    }
    throw new Exception("$what: nothing was thrown");
}

/** Waits until the condition is true, and returns its value. */
function waitFor(string $what, callable $condition, float $seconds = 60): mixed
{
    $end = microtime(true) + $seconds;
    while (!($value = $condition())) {
        ok("in time: $what", microtime(true) < $end);
        usleep(2000);
    }
    return $value;
}

/** Converts a flat reply of names and values to an array by name. */
function pairs(array $row): array
{
    return array_column(array_chunk($row, 2), 1, 0);
}

function info(Redis $redis, string $key): array
{
    return pairs($redis->rawCommand('LOCK.INFO', $key));
}

function waiters(Redis $redis, string $key): int
{
    return info($redis, $key)['waiters'] ?? 0;
}

/** How often the server was sent this command, whether it refused it or not. */
function calls(Redis $redis, string $verb): int
{
    preg_match_all('/\b(?:rejected_)?calls=(\d+)/', $redis->info('commandstats')["cmdstat_lock.$verb"] ?? '', $found);
    return array_sum($found[1]);
}

/** Ends the connections that last sent LOCK.ACQUIRE. */
function cut(Redis $operator): void
{
    preg_match_all('/^id=(\d+).* cmd=lock/m', $operator->rawCommand('CLIENT', 'LIST'), $found);
    array_map(fn(string $id) => $operator->rawCommand('CLIENT', 'KILL', 'ID', $id), $found[1]);
}

/** The worker processes of a test that have not been waited for. */
final class Workers
{
    /** @var array<int, true> */
    private static array $running = [];

    /** Starts a process for this work, which must make its own connections. */
    public static function start(callable $work): int
    {
        $process = pcntl_fork();
        if ($process !== 0) {
            self::$running[$process] = true;
            return $process;
        }
        try {
            $work();
            exit(0);
        } catch (Throwable $error) {
            fwrite(STDERR, "$error\n");
            exit(1);
        }
    }

    /** Waits for the end of a process that was killed. */
    public static function ended(int $process): void
    {
        pcntl_waitpid($process, $status);
        ok('it was killed', pcntl_wifsignaled($status));
        unset(self::$running[$process]);
    }

    /** Waits for all processes, which must have succeeded. */
    public static function join(): void
    {
        while (self::$running !== []) {
            unset(self::$running[pcntl_wait($status)]);
            ok('a worker has done its work', pcntl_wifexited($status) && pcntl_wexitstatus($status) === 0);
        }
    }

    public static function end(): void
    {
        foreach (array_keys(self::$running) as $process) {
            posix_kill($process, SIGKILL);
            pcntl_waitpid($process, $status);
        }
        self::$running = [];
    }
}
