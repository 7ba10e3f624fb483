package redislock.spring;

import java.time.Duration;
import java.util.ConcurrentModificationException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.Lock;
import java.util.function.Consumer;
import org.springframework.integration.support.locks.DistributedLock;
import org.springframework.integration.support.locks.RenewableLockRegistry;
import redislock.LockException;
import redislock.Locks;
import redislock.Options;

/** Spring Integration's registry of locks. They are renewed while they are held, except those locked with a time to live. */
public final class RedislockRegistry implements RenewableLockRegistry<DistributedLock> {
    private final Locks locks;
    private final String prefix;
    private final Consumer<Options> options;

    /** The key of a lock is {@code registryKey:lockKey}. */
    public RedislockRegistry(Locks locks, String registryKey) {
        this(locks, registryKey, all -> {});
    }

    /** Uses these options for all locks: the lease, for example. */
    public RedislockRegistry(Locks locks, String registryKey, Consumer<Options> options) {
        this.locks = locks;
        prefix = registryKey + ":";
        this.options = options;
    }

    @Override
    public DistributedLock obtain(Object lockKey) {
        return new RegistryLock(locks, key(lockKey), options);
    }

    /** Extends the lock by a lease of the same length as before, counted from now. */
    @Override
    public void renewLock(Object lockKey) {
        renew(lockKey, null);
    }

    @Override
    public void renewLock(Object lockKey, Duration ttl) {
        renew(lockKey, ttl);
    }

    private void renew(Object lockKey, Duration ttl) {
        var held = locks.heldByThread(key(lockKey))
            .orElseThrow(() -> new IllegalMonitorStateException("this thread does not hold " + lockKey));
        if (ttl == null) held.extend();
        else held.extend(ttl);
    }

    private String key(Object lockKey) {
        if (lockKey instanceof String name) return prefix + name;
        throw new IllegalArgumentException("the key of a lock must be a String: " + lockKey);
    }

    private record RegistryLock(Locks locks, String key, Consumer<Options> options) implements DistributedLock {
        private Lock forGood() {
            return locks.lock(key, options);
        }

        private Lock forAtMost(Duration ttl) {
            return locks.lock(key, options.andThen(all -> all.lease(ttl).renew(false)));
        }

        @Override
        public void lock() {
            forGood().lock();
        }

        @Override
        public void lock(Duration ttl) {
            forAtMost(ttl).lock();
        }

        @Override
        public void lockInterruptibly() throws InterruptedException {
            forGood().lockInterruptibly();
        }

        @Override
        public boolean tryLock() {
            return forGood().tryLock();
        }

        @Override
        public boolean tryLock(long time, TimeUnit unit) throws InterruptedException {
            return forGood().tryLock(time, unit);
        }

        @Override
        public boolean tryLock(Duration waitTime, Duration ttl) throws InterruptedException {
            return forAtMost(ttl).tryLock(waitTime.toMillis(), TimeUnit.MILLISECONDS);
        }

        /** If the lock was lost, throws the same exception as Spring Integration's own registries. */
        @Override
        public void unlock() {
            try {
                forGood().unlock();
            } catch (LockException.Lost lost) {
                var told = new ConcurrentModificationException(lost.getMessage());
                told.initCause(lost);
                throw told;
            }
        }

        @Override
        public Condition newCondition() {
            return forGood().newCondition();
        }
    }
}
