package redislock.shedlock;

import java.time.Duration;
import java.time.Instant;
import java.util.Optional;
import net.javacrumbs.shedlock.core.AbstractSimpleLock;
import net.javacrumbs.shedlock.core.ClockProvider;
import net.javacrumbs.shedlock.core.ExtensibleLockProvider;
import net.javacrumbs.shedlock.core.LockConfiguration;
import net.javacrumbs.shedlock.core.SimpleLock;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import redislock.Held;
import redislock.LockException;
import redislock.Locks;

/**
 * ShedLock's provider. lockAtMostFor is the lease, which is not renewed. If the job ends before lockAtLeastFor is over, the lease is shortened
 * to the rest of this time; so the server ends the lock, even if this process dies first.
 */
public final class RedislockProvider implements ExtensibleLockProvider {
    private static final Logger LOG = LoggerFactory.getLogger(RedislockProvider.class);

    private final Locks locks;
    private final String prefix;

    /** The key of a job is {@code shedlock:name}. */
    public RedislockProvider(Locks locks) {
        this(locks, "shedlock:");
    }

    /** The key of a job is the prefix followed by the job's name. */
    public RedislockProvider(Locks locks, String prefix) {
        this.locks = locks;
        this.prefix = prefix;
    }

    @Override
    public Optional<SimpleLock> lock(LockConfiguration job) {
        Duration lease = left(job.getLockAtMostUntil());
        return locks.tryAcquire(prefix + job.getName(), options -> options.lease(lease).renew(false))
            .map(held -> new JobLock(job, held));
    }

    private static Duration left(Instant until) {
        Duration left = Duration.between(ClockProvider.now(), until);
        return left.toMillis() < 1 ? Duration.ofMillis(1) : left;
    }

    private static final class JobLock extends AbstractSimpleLock {
        private final Held held;

        JobLock(LockConfiguration job, Held held) {
            super(job);
            this.held = held;
        }

        @Override
        protected void doUnlock() {
            try {
                if (lockConfiguration.getLockAtLeastUntil().isAfter(ClockProvider.now())) {
                    held.releaseIn(left(lockConfiguration.getLockAtLeastUntil()));
                } else {
                    held.close();
                }
            } catch (LockException.Lost lost) {
                LOG.warn("{} ran on although its lock was lost, perhaps for longer than lockAtMostFor", lockConfiguration.getName(), lost);
            }
        }

        @Override
        protected Optional<SimpleLock> doExtend(LockConfiguration longer) {
            try {
                held.extend(left(longer.getLockAtMostUntil()));
                return Optional.of(new JobLock(longer, held));
            } catch (LockException.Lost lost) {
                return Optional.empty();
            }
        }
    }
}
