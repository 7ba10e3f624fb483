<?php

declare(strict_types=1);

namespace Redislock\Laravel;

use Illuminate\Cache\Lock as CacheLock;
use Illuminate\Contracts\Cache\LockTimeoutException;
use Illuminate\Redis\Connections\PhpRedisConnection;
use Redislock\{LockLost, Locks, NotAcquired, Request};

/**
 * One of Laravel's locks. Another process that knows the owner may release it, so it has a lease and never a session: for a ShouldBeUnique
 * job, the dispatching process takes the lock, and the worker releases it. `block` waits in the server's queue.
 */
final class Lock extends CacheLock
{
    /** A lease of a hundred years: to Laravel, 0 seconds mean that the lock does not end by itself. */
    private const NO_END = 3_155_760_000.0;

    private readonly Locks $locks;
    private bool $held = false;

    /**
     * @param PhpRedisConnection $connection
     * @param string $name
     * @param int $seconds
     * @param ?string $owner
     */
    public function __construct($connection, $name, $seconds, $owner = null)
    {
        parent::__construct($name, $seconds, $owner ?? Request::uuid());
        $this->locks = new Locks($connection->client());
    }

    /** Asks once, without waiting. As with Laravel's own locks, an owner can't acquire a lock that it holds. */
    public function acquire(): bool
    {
        return $this->wait(0.0);
    }

    public function block($seconds, $callback = null)
    {
        if (!$this->wait((float) $seconds)) {
            throw new LockTimeoutException();
        }
        if (!is_callable($callback)) {
            return true;
        }
        try {
            return $callback();
        } finally {
            $this->release();
        }
    }

    public function release(): bool
    {
        $this->held = false;
        return $this->end($this->owner);
    }

    public function forceRelease(): void
    {
        array_map($this->end(...), $this->locks->owners($this->request($this->owner)));
    }

    protected function getCurrentOwner(): ?string
    {
        return $this->locks->owners($this->request($this->owner))[0] ?? null;
    }

    private function wait(float $seconds): bool
    {
        if ($this->held && $this->isOwnedByCurrentProcess()) {
            return false;
        }
        try {
            $this->locks->ask($this->request($this->owner, $seconds));
        } catch (NotAcquired) {
            return false;
        }
        return $this->held = true;
    }

    private function end(string $owner): bool
    {
        $request = $this->request($owner);
        $again = false;
        try {
            $this->locks->insist([...$request->release([]), 'ALL'], $request, 1, $again);
        } catch (LockLost) {
            return $again; // an earlier try may have worked
        }
        return true;
    }

    private function request(string $owner, ?float $wait = null): Request
    {
        return new Request([$this->name], $wait, $this->seconds > 0 ? (float) $this->seconds : self::NO_END, label: Request::process(), owner: $owner);
    }
}
