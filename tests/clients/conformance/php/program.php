<?php

declare(strict_types=1);

// A process of the conformance program; `start` starts one for each task.

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

/** Converts the options of a command: milliseconds become seconds. */
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

/** Returns a function that connects to the server that the driver named; with sentinels, to the current primary. */
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

/** The tasks of this process. */
final class Tasks
{
    private Locks $locks;
    /** @var array<string, Held> */
    private array $held = [];

    public function run(): never
    {
        stream_set_blocking(STDIN, false);
        while (true) {
            foreach ($this->held as $task => $held) {
                try {
                    $held->keep();
                } catch (LockLost $lost) {
                    unset($this->held[$task]);
                    tell($task, $lost);
                }
            }
            $ready = [STDIN];
            $none = null;
            if (stream_select($ready, $none, $none, $this->held === [] ? 1 : 0, 10_000)) {
                while (($line = fgets(STDIN)) !== false) { // read all lines: stream_select does not see lines in PHP's buffer
                    $this->obey(json_decode($line, true));
                }
                if (feof(STDIN)) {
                    exit(0); // freeing the objects releases the locks
                }
            }
        }
    }

    private function obey(array $command): void
    {
        $task = $command['task'] ?? '';
        try {
            switch ($command['do']) {
                case 'open':
                    $this->locks = new Locks(connecting($command), isset($command['observe']) ? new Tells() : null);
                    break;
                case 'acquire':
                    $held = $this->held[$task] = $this->locks->acquire($command['keys'], ...options($command));
                    pcntl_signal(SIGTERM, SIG_IGN); // until the lock was held, SIGTERM ended the wait
                    say('acquired', $task, ['owner' => $held->owner(), 'fences' => $held->fences(), 'slot' => $held->slot()]);
                    break;
                case 'extend':
                    say('extended', $task, ['lease' => (int) round(1000 * $this->held[$task]->extend($command['lease'] / 1000))]);
                    break;
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
}

(new Tasks())->run();
