import io.lettuce.core.RedisClient;
import java.time.Duration;
import java.util.concurrent.TimeUnit;
import java.util.function.LongFunction;
import org.redisson.Redisson;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;
import redislock.Locks;

/** From Redisson's lock to Redislock's, in steps that two versions of a program can run beside each other: OLD, BOTH, NEW. */
enum Both {
    OLD, BOTH, NEW;

    /** Does the work alone, with a fence, or 0 under the old lock. Both locks are waited for so long at most, and renewed during the work. */
    <T> T alone(RedissonClient redisson, Locks locks, String name, Duration wait, LongFunction<T> work) throws InterruptedException {
        if (this == NEW) return underNew(locks, name, wait, work);
        long end = System.nanoTime() + wait.toNanos();
        var old = redisson.getLock("lock:" + name);
        if (!old.tryLock(wait.toMillis(), TimeUnit.MILLISECONDS)) throw new IllegalStateException("the old lock is not free: " + name);
        try {
            return this == OLD ? work.apply(0) : underNew(locks, name, Duration.ofNanos(Math.max(0, end - System.nanoTime())), work);
        } finally {
            old.unlock();
        }
    }

    private static <T> T underNew(Locks locks, String name, Duration wait, LongFunction<T> work) throws InterruptedException {
        try (var held = locks.acquire("redislock:" + name, options -> options.wait(wait))) {
            return work.apply(held.fence());
        }
    }

    public static void main(String[] args) throws InterruptedException {
        String url = System.getenv().getOrDefault("REDIS_URL", "redis://localhost:6379");
        var config = new Config();
        config.useSingleServer().setAddress(url);
        var redisson = Redisson.create(config);
        try (var client = RedisClient.create(url); var locks = new Locks(client)) {
            long fence = BOTH.alone(redisson, locks, "invoice:42", Duration.ofSeconds(10), under -> under);
            System.out.println("held with fence " + fence);
        } finally {
            redisson.shutdown();
        }
    }
}
