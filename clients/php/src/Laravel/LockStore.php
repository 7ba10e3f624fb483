<?php

declare(strict_types=1);

namespace Redislock\Laravel;

use Illuminate\Cache\RedisStore;
use Illuminate\Contracts\Redis\Factory;

/** Laravel's Redis store for the cache, whose locks are these: for Cache::lock, ShouldBeUnique, WithoutOverlapping, onOneServer. */
final class LockStore extends RedisStore
{
    /** @param array<string, mixed> $config the store in config/cache.php, with the same settings as the driver `redis` */
    public static function of(Factory $redis, array $config, string $prefix): self
    {
        $connection = $config['connection'] ?? 'default';
        $store = new self($redis, $config['prefix'] ?? $prefix, $connection);
        return $store->setLockConnection($config['lock_connection'] ?? $connection);
    }

    public function lock($name, $seconds = 0, $owner = null)
    {
        return new Lock($this->lockConnection(), $this->prefix . $name, $seconds, $owner);
    }

    public function restoreLock($name, $owner)
    {
        return $this->lock($name, 0, $owner);
    }
}
