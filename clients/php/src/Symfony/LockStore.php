<?php

declare(strict_types=1);

namespace Redislock\Symfony;

use Closure;
use Redis;
use RedisCluster;
use Redislock\{LockError, LockLost, Locks, NotAcquired, Request};
use Symfony\Component\Lock\BlockingSharedLockStoreInterface;
use Symfony\Component\Lock\BlockingStoreInterface;
use Symfony\Component\Lock\Exception\InvalidTtlException;
use Symfony\Component\Lock\Exception\LockConflictedException;
use Symfony\Component\Lock\Exception\LockStorageException;
use Symfony\Component\Lock\Key;
use Symfony\Component\Lock\Store\ExpiringStoreTrait;
use WeakMap;

/** Symfony's lock store. The server serves waiters in order of arrival. A key can be passed to another process, except with `session`. */
final class LockStore implements BlockingStoreInterface, BlockingSharedLockStoreInterface
{
    use ExpiringStoreTrait;

    private readonly Locks $locks;
    /** @var WeakMap<Key, int> the process that took the lock: in a child after a fork, this is the parent */
    private readonly WeakMap $taken;

    /**
     * @param Redis|RedisCluster|Closure(): (Redis|RedisCluster) $client
     * @param float $initialTtl seconds; a Lock sets its own afterwards
     * @param bool $session the server renews the lock, and frees it as soon as this connection closes
     */
    public function __construct(Redis|RedisCluster|Closure $client, private readonly float $initialTtl = 300.0, private readonly bool $session = false)
    {
        if ($initialTtl <= 0) {
            throw new InvalidTtlException("a lock needs a TTL above 0: $initialTtl");
        }
        $this->locks = new Locks($client);
        $this->taken = new WeakMap();
    }

    public function save(Key $key): void
    {
        $this->take($key, 0.0, false);
    }

    public function waitAndSave(Key $key): void
    {
        $this->take($key, null, false);
    }

    public function saveRead(Key $key): void
    {
        $this->demote($key);
        $this->take($key, 0.0, true);
    }

    public function waitAndSaveRead(Key $key): void
    {
        $this->demote($key);
        $this->take($key, null, true);
    }

    public function putOffExpiration(Key $key, float $ttl): void
    {
        if ($ttl <= 0) {
            throw new InvalidTtlException("a lock needs a TTL above 0: $ttl");
        }
        if (!$this->session) {
            $key->reduceLifetime($ttl);
        }
        $request = $this->request($key, $ttl);
        try {
            $this->run(fn() => $this->locks->insist($request->extend([]), $request, 5));
        } catch (LockLost $lost) {
            throw new LockConflictedException($lost->getMessage(), previous: $lost);
        }
        $this->checkNotExpired($key);
    }

    public function delete(Key $key): void
    {
        if ($this->isParents($key)) {
            return;
        }
        $request = $this->request($key);
        try {
            $this->run(fn() => $this->locks->insist([...$request->release([]), 'ALL'], $request, 1)); // may run at exit
        } catch (LockLost) { // the lock has ended anyway
        }
        $key->removeState(self::class . ' writes');
    }

    public function exists(Key $key): bool
    {
        if ($this->isParents($key)) {
            return false;
        }
        $request = $this->request($key);
        return $this->run(fn() => in_array($request->owner, $this->locks->owners($request), true));
    }

    private function isParents(Key $key): bool
    {
        return ($this->taken[$key] ?? getmypid()) !== getmypid();
    }

    private function take(Key $key, ?float $wait, bool $shared): void
    {
        if ($this->session) {
            $key->markUnserializable();
        }
        $request = $this->request($key, $this->initialTtl, $wait, $shared);
        try {
            [, $began] = $this->run(fn() => $this->locks->ask($request));
        } catch (NotAcquired $conflict) {
            throw new LockConflictedException($conflict->getMessage(), previous: $conflict);
        }
        if (!$this->session) {
            $key->reduceLifetime($began + $this->initialTtl - Locks::now());
        }
        $key->setState(self::class . ' writes', !$shared);
        $key->setState(self::class . ' database', $request->database);
        $this->taken[$key] = getmypid();
        $this->checkNotExpired($key);
    }

    /** From writing to reading: a grant can't get more room, so the lock is released, and acquired again behind the other waiters. */
    private function demote(Key $key): void
    {
        if ($key->hasState(self::class . ' writes') && $key->getState(self::class . ' writes')) {
            $this->delete($key);
        }
    }

    private function request(Key $key, ?float $ttl = null, ?float $wait = null, bool $shared = false): Request
    {
        if (!$key->hasState(self::class)) {
            $key->setState(self::class, Request::uuid());
        }
        $lease = $ttl === null ? null : max(0.001, $ttl);
        $request = new Request([(string) $key], $wait, $lease, $shared, label: Request::process(), session: $this->session, owner: $key->getState(self::class));
        $request->database = $key->hasState(self::class . ' database') ? $key->getState(self::class . ' database') : null;
        return $request;
    }

    private function run(Closure $command): mixed
    {
        try {
            return $command();
        } catch (NotAcquired | LockLost $error) {
            throw $error;
        } catch (LockError | \RedisException $error) {
            throw new LockStorageException($error->getMessage(), previous: $error);
        }
    }
}
