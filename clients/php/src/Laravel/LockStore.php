<?php

declare(strict_types=1);

namespace Redislock\Laravel;

use Illuminate\Cache\RedisStore;

/** Laravel's Redis store for the cache, with these locks: for Cache::lock, ShouldBeUnique, WithoutOverlapping, onOneServer. */
final class LockStore extends RedisStore
{
    public function lock($name, $seconds = 0, $owner = null)
    {
        return new Lock($this->lockConnection(), $this->prefix . $name, $seconds, $owner);
    }

    public function restoreLock($name, $owner)
    {
        return $this->lock($name, 0, $owner);
    }
}
