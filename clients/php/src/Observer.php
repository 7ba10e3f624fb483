<?php

declare(strict_types=1);

namespace Redislock;

use Throwable;

/** How many can hold the locks together: one, any number of readers, or as many as `limit` says. */
enum Mode: string
{
    case Exclusive = 'exclusive';
    case Shared = 'shared';
    case Limit = 'limit';
}

/** How an acquire ends without the lock: its wait was over, it did not want to wait, it would have waited for ever, or anything else. */
enum Outcome: string
{
    case Timeout = 'timeout';
    case Busy = 'busy';
    case Deadlock = 'deadlock';
    case Error = 'error';
}

/**
 * Is told what becomes of each acquire: after waiting() comes acquired() or refused(), and after acquired() either released() or lost(). A
 * process notices a loss only when it uses the lock. Exceptions of an observer go to PHP's log. Times are in seconds.
 */
interface Observer
{
    /** Somebody else holds a lock, so this acquire waits. To know this, it first asks without a wait. @param list<string> $keys */
    public function waiting(array $keys, Mode $mode): void;

    /** @param list<string> $keys */
    public function acquired(array $keys, Mode $mode, float $waited, int $fence): void;

    /** @param list<string> $keys */
    public function refused(array $keys, Mode $mode, float $waited, Outcome $outcome, Throwable $reason): void;

    /** @param list<string> $keys */
    public function released(array $keys, Mode $mode, float $held): void;

    /** @param list<string> $keys */
    public function lost(array $keys, Mode $mode, float $held, LockLost $reason): void;
}

/** Empty methods, for observers that need only some of the events. */
trait ObserverDefaults
{
    public function waiting(array $keys, Mode $mode): void
    {
    }

    public function acquired(array $keys, Mode $mode, float $waited, int $fence): void
    {
    }

    public function refused(array $keys, Mode $mode, float $waited, Outcome $outcome, Throwable $reason): void
    {
    }

    public function released(array $keys, Mode $mode, float $held): void
    {
    }

    public function lost(array $keys, Mode $mode, float $held, LockLost $reason): void
    {
    }
}

/** @internal Tells an observer of one acquire. */
final class Watch
{
    public bool $waits = false;
    private readonly float $began;
    private float $since;

    public function __construct(private readonly Observer $observer, private readonly Request $request)
    {
        $this->began = Locks::now();
    }

    public function waiting(): void
    {
        $this->waits = true;
        $this->tell('waiting');
    }

    public function acquired(int $fence): void
    {
        $this->since = Locks::now();
        $this->tell('acquired', $this->since - $this->began, $fence);
    }

    public function refused(Throwable $error): void
    {
        $outcome = match (true) {
            $error instanceof NotAcquired => $this->request->wait === 0.0 ? Outcome::Busy : Outcome::Timeout,
            $error instanceof Deadlock => Outcome::Deadlock,
            default => Outcome::Error,
        };
        $this->tell('refused', Locks::now() - $this->began, $outcome, $error);
    }

    public function ended(?LockLost $lost): void
    {
        $held = Locks::now() - $this->since;
        $lost === null ? $this->tell('released', $held) : $this->tell('lost', $held, $lost);
    }

    private function tell(string $event, mixed ...$what): void
    {
        try {
            $this->observer->$event($this->request->keys, $this->request->shape, ...$what);
        } catch (Throwable $failed) {
            error_log("redislock: an observer has failed: $failed");
        }
    }
}
