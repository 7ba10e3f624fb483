<?php

declare(strict_types=1);

// The program of the conformance scenarios. A PHP process does one thing at a time, so each task has a process of its own, as with
// php-fpm or a queue's workers; tasks of an owner that is named share one, which enters its locks again.

use Redislock\{Deadlock, Held, LockLost, Locks, Mode, NoModule, NotAcquired, NotConfirmed, Observer, Outcome, TooOld};

require $argv[1];

set_error_handler(function (int $level, string $message, string $file, int $line): bool {
    if (error_reporting() & $level) {
        throw new ErrorException($message, 0, $level, $file, $line);
    }
    return true;
});

function say(string $event, ?string $task = null, array $more = []): void
{
    fwrite(STDOUT, json_encode(['event' => $event, ...$task === null ? [] : ['task' => $task], ...$more]) . "\n");
}

function tell(string $task, Throwable $error): void
{
    $event = match (true) {
        $error instanceof NotAcquired => 'not_acquired',
        $error instanceof LockLost => 'lost',
        $error instanceof Deadlock => 'deadlock',
        $error instanceof NotConfirmed => 'not_confirmed',
        $error instanceof NoModule => 'no_module',
        $error instanceof TooOld => 'too_old',
        $error instanceof InvalidArgumentException => 'refused',
        default => 'error',
    };
    $more = $error instanceof Deadlock ? ['cycle' => $error->cycle] : [];
    say($event, $task, ['message' => $error::class . ': ' . $error->getMessage(), 'reason' => $error->getMessage(), ...$more]);
}

final class Tells implements Observer
{
    private function tell(string $event, array $keys, Mode $mode, float $seconds = 0, string $more = '', string $reason = ''): void
    {
        say('observed', null, ['what' => "$event " . implode(',', $keys) . " $mode->value$more", 'ms' => 1000 * $seconds, 'reason' => $reason]);
    }

    public function waiting(array $keys, Mode $mode): void
    {
        $this->tell('waiting', $keys, $mode);
    }

    public function acquired(array $keys, Mode $mode, float $waited, int $fence): void
    {
        $this->tell('acquired', $keys, $mode, $waited);
    }

    public function refused(array $keys, Mode $mode, float $waited, Outcome $outcome, Throwable $reason): void
    {
        $this->tell('refused', $keys, $mode, $waited, " $outcome->value");
    }

    public function released(array $keys, Mode $mode, float $held): void
    {
        $this->tell('released', $keys, $mode, $held);
    }

    public function lost(array $keys, Mode $mode, float $held, LockLost $reason): void
    {
        $this->tell('lost', $keys, $mode, $held, reason: $reason->reason);
    }
}

/** Milliseconds become seconds. */
function options(array $command): array
{
    $found = array_intersect_key($command, array_flip(['shared', 'limit', 'slot', 'label', 'detect', 'session', 'owner', 'renew']));
    foreach (['wait' => 'wait', 'lease' => 'lease', 'max_hold' => 'maxHold'] as $name => $option) {
        if (isset($command[$name])) {
            $found[$option] = $command[$name] / 1000;
        }
    }
    return isset($command['sync']) ? [...$found, 'sync' => [$command['sync'][0], $command['sync'][1] / 1000]] : $found;
}

/** What connects to the server that the driver named: for sentinels, to the primary of now. */
function connecting(array $command): Closure
{
    $addresses = array_map(fn(string $url) => explode(':', substr($url, strlen('redis://'))), $command['urls']);
    return match ($command['kind']) {
        'cluster' => fn() => new RedisCluster(null, array_map(fn(array $address) => implode(':', $address), $addresses), 5, 5),
        'sentinel' => function () use ($addresses, $command): Redis {
            [$host, $port] = (new RedisSentinel($addresses[0][0], (int) $addresses[0][1], 1))->getMasterAddrByName($command['service'])
                ?: throw new RedisException('no primary is known');
            return connect($host, (int) $port);
        },
        default => fn() => connect($addresses[0][0], (int) $addresses[0][1]),
    };
}

function connect(string $host, int $port): Redis
{
    $redis = new Redis();
    $redis->connect($host, $port, 2, null, 0, 1);
    return $redis;
}

/** A process that does what comes over the socket. */
final class Worker
{
    /** @var array<string, Held> */
    private array $held = [];

    public function __construct(private Closure $connect, private $commands, ?Observer $observer)
    {
        $locks = new Locks($connect, $observer);
        stream_set_blocking($commands, false);
        while (true) {
            foreach ($this->held as $task => $held) {
                try {
                    $held->keep();
                } catch (LockLost $lost) {
                    unset($this->held[$task]);
                    tell($task, $lost);
                }
            }
            $ready = [$commands];
            $none = null;
            if (stream_select($ready, $none, $none, $this->held === [] ? 1 : 0, 10_000)) {
                while (($line = fgets($commands)) !== false) {
                    $this->obey(json_decode($line, true), $locks);
                }
            }
        }
    }

    private function obey(array $command, Locks $locks): void
    {
        $task = $command['task'] ?? '';
        try {
            switch ($command['do']) {
                case 'acquire':
                    $held = $this->held[$task] = $locks->acquire($command['keys'], ...options($command));
                    fwrite($this->commands, "held $task\n");
                    say('acquired', $task, ['owner' => $held->owner(), 'fences' => $held->fences(), 'slot' => $held->slot()]);
                    break;
                case 'extend':
                    say('extended', $task, ['lease' => (int) round(1000 * $this->held[$task]->extend($command['lease'] / 1000))]);
                    break;
                case 'crowd':
                    $this->crowd($command, $locks);
                    break;
                case 'end':
                    exit(0); // what is held is released when its object goes
                case 'release':
                case 'cancel':
                    $held = $this->held[$task] ?? null;
                    unset($this->held[$task]);
                    $held?->release();
                    $held === null || say($command['do'] === 'cancel' ? 'cancelled' : 'released', $task);
            }
        } catch (Throwable $error) {
            if ($command['do'] !== 'extend' || $error instanceof LockLost) {
                unset($this->held[$task]);
            }
            tell($task, $error);
        }
    }

    private function crowd(array $command, Locks $locks): void
    {
        ['keys' => $keys, 'number' => $number] = $command;
        $client = ($this->connect)();
        $longest = 0;
        for ($turn = 0; $turn < $command['rounds']; $turn++) {
            $key = $keys[($number + $turn) % count($keys)];
            $begin = hrtime(true);
            $locks->withLock($key, function (Held $held) use ($client, $key, $begin, &$longest): void {
                $longest = max($longest, hrtime(true) - $begin);
                $count = (int) $client->get("count:$key");
                $client->set("count:$key", (string) ($count + 1));
                $client->rPush("fences:$key", (string) $held->fence());
            }, ...options($command));
        }
        fwrite($this->commands, 'done ' . intdiv($longest, 1_000_000) . "\n");
    }
}

/** The process that listens to the driver. */
final class Program
{
    private ?Closure $connect = null;
    private ?Observer $observer = null;
    /** @var array<int, resource> the sockets of workers, by process */
    private array $workers = [];
    /** @var array<string, int> */
    private array $processOf = [], $processOfOwner = [];
    private array $holding = [], $crowds = [];

    public function run(): void
    {
        $this->watch();
        stream_set_blocking(STDIN, false);
        while (true) {
            $ready = [STDIN, ...$this->workers];
            $none = null;
            if (!@stream_select($ready, $none, $none, 60)) {
                continue;
            }
            foreach ($ready as $stream) {
                if ($stream !== STDIN) {
                    $this->heard($stream);
                }
            }
            if (in_array(STDIN, $ready, true)) {
                while (($line = fgets(STDIN)) !== false) { // all of them: select does not see what was read ahead
                    $this->obey(json_decode($line, true));
                }
                if (feof(STDIN)) {
                    $this->close();
                    exit(0);
                }
            }
        }
    }

    private function obey(array $command): void
    {
        $task = $command['task'] ?? '';
        switch ($command['do']) {
            case 'open':
                $this->connect = connecting($command);
                $this->observer = isset($command['observe']) ? new Tells() : null;
                say('opened');
                break;
            case 'close':
                $this->close();
                say('closed');
                break;
            case 'acquire':
                $owner = $command['owner'] ?? '';
                $process = $this->processOfOwner[$owner] ?? $this->fork();
                if ($owner !== '') {
                    $this->processOfOwner[$owner] = $process;
                }
                $this->processOf[$task] = $process;
                $this->pass($process, $command);
                break;
            case 'crowd':
                $this->crowds[$task] = ['left' => $command['tasks'], 'longest' => 0];
                for ($number = 0; $number < $command['tasks']; $number++) {
                    $process = $this->fork();
                    $this->crowds[$task]['processes'][$process] = true;
                    $this->pass($process, [...$command, 'number' => $number]);
                }
                break;
            case 'cancel':
                $process = $this->processOf[$task];
                $this->heard($this->workers[$process], wait: false);
                if (isset($this->holding[$task])) {
                    $this->pass($process, $command);
                    break;
                }
                // Nothing but a signal reaches a process that waits. Its place ends with its connection.
                $this->kill($process);
                say('cancelled', $task);
                break;
            default:
                $this->pass($this->processOf[$task], $command);
        }
    }

    /** The driver kills or stops this process: then all of its tasks shall be killed or stopped. */
    private function watch(): void
    {
        posix_setpgid(0, 0);
        $main = getmypid();
        if (pcntl_fork() !== 0) {
            return;
        }
        array_map(fclose(...), [STDIN, STDOUT]);
        posix_setpgid(0, 0);
        for ($before = 'S';; $before = $state) {
            usleep(5000);
            $state = preg_match('/\) (\w)/', (string) @file_get_contents("/proc/$main/stat"), $found) ? $found[1] : 'X';
            match (true) {
                $state === 'T' && $before !== 'T' => posix_kill(-$main, SIGSTOP),
                $state !== 'T' && $before === 'T' => posix_kill(-$main, SIGCONT),
                default => null,
            };
            if (in_array($state, ['X', 'Z'], true)) {
                posix_kill(-$main, SIGKILL);
                exit(0);
            }
        }
    }

    private function fork(): int
    {
        [$ours, $theirs] = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
        $process = pcntl_fork();
        if ($process === 0) {
            fclose($ours);
            array_map(fclose(...), $this->workers);
            new Worker($this->connect, $theirs, $this->observer);
        }
        fclose($theirs);
        stream_set_blocking($ours, false);
        return [$process, $this->workers[$process] = $ours][0];
    }

    private function pass(int $process, array $command): void
    {
        fwrite($this->workers[$process], json_encode($command) . "\n");
    }

    private function heard($stream, bool $wait = true): void
    {
        $process = array_search($stream, $this->workers, true);
        while (($line = fgets($stream)) !== false) {
            [$what, $value] = explode(' ', trim($line));
            if ($what === 'held') {
                $this->holding[$value] = true;
                continue;
            }
            foreach ($this->crowds as $task => &$crowd) {
                if (isset($crowd['processes'][$process])) {
                    $crowd['longest'] = max($crowd['longest'], (int) $value);
                    if (--$crowd['left'] === 0) {
                        say('done', $task, ['longest_wait' => $crowd['longest']]);
                    }
                }
            }
        }
        if (feof($stream) && $wait) {
            unset($this->workers[$process]);
            pcntl_waitpid($process, $status);
        }
    }

    private function kill(int $process): void
    {
        posix_kill($process, SIGKILL);
        pcntl_waitpid($process, $status);
        unset($this->workers[$process]);
    }

    /** Those that work end in order, and release what they hold; those that wait are killed. */
    private function close(): void
    {
        $processes = array_keys($this->workers);
        $holding = array_intersect_key($this->processOf, $this->holding);
        foreach ($processes as $process) {
            if (in_array($process, $holding, true)) {
                $this->pass($process, ['do' => 'end']);
            } else {
                posix_kill($process, SIGKILL);
            }
        }
        $this->workers = [];
        foreach ($processes as $process) {
            pcntl_waitpid($process, $status);
        }
    }
}

(new Program())->run();
