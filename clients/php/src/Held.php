<?php

declare(strict_types=1);

namespace Redislock;

use InvalidArgumentException;
use WeakMap;

/**
 * A lock that is held. PHP has no thread that could renew it: call keep() between the steps of the work, or acquire it with `session`: then
 * the server renews it while the connection is open. It is released when the object is freed, and at the end of the program.
 */
final class Held
{
    private const ENDED = 'the program ended, and the server did not answer';
    /** @var ?WeakMap<self, true> locks to release at the end of the program: after a fatal error, PHP frees no objects */
    private static ?WeakMap $all = null;
    /** Until when the end of the program waits for a server that does not answer. */
    private static float $end = INF;

    private readonly int $process;
    /** @var list<int> */
    private array $fences;
    private ?int $slot;
    private float $lease;
    private float $until = INF;
    private float $given = 0; // the lease in the last answer
    private bool $aged = false; // the last answer gave less than was asked for or than the one before: the maximum age cuts it
    private float $due = INF;
    private bool $released = false;
    private ?LockLost $lost = null;

    /** @internal */
    public function __construct(private readonly Locks $locks, private readonly Request $request, array $reply, float $began)
    {
        if (self::$all === null) {
            self::$all = new WeakMap();
            register_shutdown_function(static fn() => register_shutdown_function(self::end(...))); // after those of others
        }
        self::$all[$this] = true;
        $this->process = getmypid();
        $request->taken = true;
        $this->fences = (array) $reply[1];
        $this->slot = ((array) ($reply[4] ?? []))[0] ?? null;
        $this->lease = $request->lease ?? $reply[3] / 1000;
        $this->renewed($reply[3], $began);
        $locks->share($request, 1);
    }

    public function __destruct()
    {
        try {
            $this->release();
        } catch (LockError | InvalidArgumentException) { // a destructor can't report it
        }
    }

    private static function end(): void
    {
        self::$end = Locks::now() + 1;
        foreach (self::$all as $held => $_) {
            $held->__destruct();
        }
    }

    /** @return list<string> */
    public function keys(): array
    {
        return $this->request->keys;
    }

    public function owner(): string
    {
        return $this->request->owner;
    }

    /** Greater for each later grant: a resource that checks it can refuse a late holder. With several locks, their greatest fence. */
    public function fence(): int
    {
        return max($this->fences);
    }

    /** @return list<int> one for each key */
    public function fences(): array
    {
        return $this->fences;
    }

    /** With `limit`: which of the holders this one is, from 1; null if the server does not tell. */
    public function slot(): ?int
    {
        return $this->slot;
    }

    /** Why the lock was lost, as far as this process knows: its lease is over by our own clock, or the server has said so. */
    public function lost(): ?LockLost
    {
        if ($this->lost === null && !$this->released && Locks::now() >= $this->until) {
            $this->lose($this->aged ? "it has reached its maximum age (maxHold, or the server's lock.max-hold)" : 'its lease is over');
        }
        return $this->lost;
    }

    /**
     * Renews the lock if a third of its lease has passed, and throws LockLost if it was lost. Frequent calls cost nothing.
     *
     * With `session`, each call asks the server whether the session is still there.
     */
    public function keep(): void
    {
        $this->check();
        if (Locks::now() >= $this->due) {
            try {
                $this->request->session ? $this->askAgain() : $this->extend();
            } catch (ConnectionLost | NotAcquired) { // no answer, or GRACE: the lock is held until its lease ends
                $this->due = Locks::now() + min(1, $this->lease / 10);
                $this->check();
            }
        }
    }

    /** Sets the lease, counted from now; null keeps its length. Returns the lease, in seconds, that the server gave. */
    public function extend(?float $lease = null): float
    {
        $this->check();
        if ($this->released) {
            throw new InvalidArgumentException("$this->request was released");
        }
        $began = Locks::now();
        if ($lease !== null) {
            Request::ms('lease', $lease);
            $this->request->lease = $this->lease = $lease;
            $this->until = min($this->until, $began + $lease); // even if the answer does not come
            $this->share();
        }
        $words = $this->request->extend($this->fences);
        try {
            try {
                $reply = $this->locks->command($words, $this->request, $this->patience());
            } catch (ConnectionLost) { // the idle connection may have ended long before
                $this->check();
                $reply = $this->locks->command($words, $this->request, $this->patience());
            }
        } catch (LockLost $lost) {
            $this->lost === null && $this->lose($lost->getPrevious()->getMessage());
            throw $this->lost;
        } catch (NotAcquired) { // GRACE
            $this->askAgain();
            return $this->lease;
        }
        $this->renewed($reply, $began);
        return $reply / 1000;
    }

    /** Throws LockLost if the lock was lost before. Does nothing in a child after a fork: the parent holds the lock. */
    public function release(): void
    {
        if ($this->released || $this->process !== getmypid()) {
            return;
        }
        $lost = $this->lost();
        $this->released = true;
        if ($lost === null) {
            try {
                $lost = $this->locks->share($this->request, -1) === 0 ? $this->give() : null;
            } finally {
                $this->request->watch?->ended($lost);
            }
        }
        if ($lost !== null) {
            throw $this->lost = $lost;
        }
    }

    private function check(): void
    {
        $lost = $this->lost();
        if ($lost !== null) {
            throw $lost;
        }
    }

    /** Sends a release, for a second at most, and without an answer again before the next lock. Returns an earlier loss. */
    private function give(): ?LockLost
    {
        $now = Locks::now();
        if ($now >= self::$end) {
            return new LockLost((string) $this->request, self::ENDED);
        }
        $words = $this->request->release($this->fences);
        $again = false;
        try {
            $reply = $this->locks->insist($words, $this->request, min(1, self::$end - $now, $this->until - $now), $again);
        } catch (LockLost $lost) {
            return $again ? null : $lost; // the first try may have worked
        } catch (ConnectionLost | InvalidArgumentException $error) { // or the work has left a MULTI open
            if (in_array('FENCE', $words, true)) { // without a fence, a later try could end a later grant
                $this->locks->owe($words, $this->request, $this->until);
            }
            return is_finite(self::$end) ? new LockLost((string) $this->request, self::ENDED, $error) : throw $error;
        }
        $gone = is_array($reply) && array_filter($reply, is_int(...)) !== $reply; // nil is false or null, depending on the client's options
        return $gone && !$again ? new LockLost((string) $this->request, 'one of the locks was gone when it was released') : null;
    }

    /** Acquires again, so that the server learns this connection anew; the fence tells whether the grant is still the old one. */
    private function askAgain(): void
    {
        $began = Locks::now();
        $this->until = min($this->until, $began + $this->lease); // of a session that does not answer
        $reply = $this->locks->command($this->request->acquire(null), $this->request, $this->patience());
        $fences = $reply === null ? [] : (array) $reply[1];
        if ($fences === $this->fences) {
            $this->renewed($reply[3], $began);
            return;
        }
        if ($fences !== []) { // a new grant, which the holder doesn't know
            try {
                $this->locks->command($this->request->release($fences), $this->request);
            } catch (LockError) { // the grant ends with its lease
            }
        }
        $this->lose('it was free, or someone else\'s, meanwhile');
        throw $this->lost;
    }

    private function lose(string $why): void
    {
        $this->lost = new LockLost((string) $this->request, $why);
        $this->request->watch?->ended($this->lost);
        if ($this->locks->share($this->request, -1) > 0) {
            return;
        }
        try { // if only the network failed, or one of several locks was lost, the server has some
            $this->locks->command($this->request->release($this->fences), $this->request, 0.1);
        } catch (LockError) {
        }
    }

    private function renewed(int $left, float $began): void
    {
        $before = $this->until - (Locks::now() - $began); // less the time that the answer took
        [$this->until, $this->due] = [INF, INF];
        if ($left < 0) { // somebody used PERSIST, so the lease never ends
            return;
        }
        $lease = $left / 1000;
        // Only the server knows how long a session lasts.
        $this->until = $this->request->session ? INF : $began + $lease;
        // The maximum age only cuts a new lease. If the end moved back, the server's default lease was changed instead.
        $asked = $this->request->lease ?? (is_finite($before) && $began + $lease < $before - 0.001 ? 0 : $this->given);
        $this->aged = ($this->request->renew || $this->request->session) && $lease < $asked - 0.001;
        $this->given = $this->aged ? $this->given : $lease;
        if ($this->request->lease === null) {
            $this->lease = $lease;
        }
        // A lease that comes out short has reached the maximum age, and no renewal makes it longer.
        if (($this->request->renew || $this->request->session) && $lease >= $asked / 2) {
            $this->due = $began + $lease / 3;
        }
        $this->share();
    }

    /** Applies this lease to all that share the grant, since they share its lease. */
    private function share(): void
    {
        if ($this->locks->share($this->request, 0) < 2) {
            return;
        }
        foreach (self::$all as $other => $_) {
            if ($other->locks === $this->locks && $other->request->owner === $this->request->owner && $other->fences === $this->fences) {
                $other->until = min($other->until, $this->until);
                $other->due = $other->request->renew ? min($other->due, $this->due) : $other->due;
            }
        }
    }

    /** How many seconds to wait for an answer. */
    private function patience(): float
    {
        return max(0, min($this->until - Locks::now(), 5)) + $this->request->syncSeconds();
    }
}
