import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.lettuce.core.RedisClient;
import java.time.Duration;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.Callable;
import java.util.concurrent.Executors;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.LongFunction;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.redisson.Redisson;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;
import redislock.Locks;

/** Two versions of a program run at the same time, while they move from Redisson's lock to Redislock's. */
@Timeout(60)
class MigratingTest {
    private final String name = UUID.randomUUID().toString();
    private final RedissonClient redisson = Redisson.create(config());
    private final RedisClient client = RedisClient.create(LocksTest.URL);
    private final Locks locks = new Locks(client);

    private static Config config() {
        var config = new Config();
        config.useSingleServer().setAddress(LocksTest.URL);
        return config;
    }

    @AfterEach
    void end() {
        locks.close();
        client.close();
        redisson.shutdown();
    }

    private <T> T alone(Both step, Duration wait, LongFunction<T> work) throws InterruptedException {
        return step.alone(redisson, locks, name, wait, work);
    }

    private void keepsOut(Both one, Both other) throws Exception {
        alone(one, Duration.ofSeconds(10), fence -> {
            var threads = Executors.newSingleThreadExecutor(); // in another thread, because an RLock is reentrant
            try {
                return threads.submit(() -> assertThrows(RuntimeException.class, () -> alone(other, Duration.ZERO, under -> under))).get();
            } catch (Exception e) {
                throw new AssertionError(one + " lets " + other + " in", e);
            } finally {
                threads.shutdown();
            }
        });
    }

    @Test
    void stepsBesideEachOtherKeepEachOtherOut() throws Exception {
        for (var each : Both.values()) keepsOut(each, each);
        keepsOut(Both.OLD, Both.BOTH);
        keepsOut(Both.BOTH, Both.OLD);
        keepsOut(Both.BOTH, Both.NEW);
        keepsOut(Both.NEW, Both.BOTH);
        long none = alone(Both.OLD, Duration.ZERO, fence -> fence);
        assertEquals(0, none);
        long fence = alone(Both.BOTH, Duration.ZERO, under -> under);
        assertTrue(fence > 0);
    }

    @Test
    void neverAreTwoAtWork() throws Exception {
        var inside = new AtomicInteger();
        var most = new AtomicInteger();
        var redis = client.connect();
        for (var steps : List.of(List.of(Both.OLD, Both.BOTH), List.of(Both.BOTH, Both.NEW))) {
            var threads = Executors.newFixedThreadPool(6);
            try {
                var work = IntStream.range(0, 60).mapToObj(at -> (Callable<Integer>) () ->
                    alone(steps.get(at % 2), Duration.ofSeconds(50), fence -> {
                        most.accumulateAndGet(inside.incrementAndGet(), Math::max);
                        redis.sync().ping(); // stands for work that takes some time
                        return inside.decrementAndGet();
                    })).toList();
                for (var done : threads.invokeAll(work)) done.get();
            } finally {
                threads.shutdownNow();
            }
        }
        assertEquals(1, most.get());
    }
}
