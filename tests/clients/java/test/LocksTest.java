import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.lettuce.core.RedisClient;
import java.util.Collections;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Executors;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.redisson.Redisson;
import org.redisson.api.RScript;
import org.redisson.client.RedisException;
import org.redisson.client.codec.StringCodec;
import org.redisson.config.Config;
import redis.clients.jedis.UnifiedJedis;
import redislock.Locks;

/** Tests what only concerns Java: interrupts at any moment, and Redisson. A Jedis client watches the server. */
@Timeout(60)
class LocksTest {
    static final String URL = System.getenv("REDIS_URL");

    private final UnifiedJedis other = redis.clients.jedis.RedisClient.create(URL);
    private final String key = UUID.randomUUID().toString();
    private final RedisClient client = RedisClient.create(URL);
    private final Locks locks = new Locks(client);

    @AfterEach
    void end() {
        locks.close();
        client.close();
        other.close();
    }

    @Test
    void aThreadThatIsInterruptedBeforeTheReplyLeavesNothingBehind() throws Exception {
        locks.acquire(key).close();
        for (int at = 0; at < 50; at++) {
            var waiting = new FutureTask<Void>(() -> {
                locks.acquire(key).close();
                return null;
            });
            var thread = new Thread(waiting);
            thread.start();
            if (at % 2 == 1) Thread.sleep(0, 1000 * at);
            thread.interrupt();
            try {
                waiting.get(30, TimeUnit.SECONDS);
            } catch (ExecutionException interrupted) {
                assertTrue(interrupted.getCause() instanceof InterruptedException, interrupted.toString());
            }
            for (long end = System.nanoTime() + 60_000_000_000L; other.exists(key); Thread.sleep(2)) {
                assertTrue(System.nanoTime() < end, "it is not freed within a minute");
            }
        }
    }

    @Test
    void besideRedissonItsObjectsAreSafeInTheBlock() throws Exception {
        var config = new Config();
        config.useSingleServer().setAddress(URL);
        var redisson = Redisson.create(config);
        var threads = Executors.newFixedThreadPool(20);
        try {
            var number = redisson.<Integer>getBucket("number:" + key);
            number.set(0);
            Callable<Void> increment = () -> {
                try (var held = locks.acquire(key)) {
                    number.set(number.get() + 1);
                }
                return null;
            };
            for (var done : threads.invokeAll(Collections.nCopies(100, increment))) done.get();
            assertEquals(100, number.get());

            // A script can acquire a lock, but not wait for it.
            var script = redisson.getScript(StringCodec.INSTANCE);
            String take = "return redis.call('LOCK.ACQUIRE', KEYS[1], 'OWNER', ARGV[1]";
            List<Object> taken = script.eval(RScript.Mode.READ_WRITE, take + ")", RScript.ReturnType.LIST, List.of(key), "script");
            assertEquals("script", taken.get(0));
            assertThrows(RedisException.class, () -> script.eval(RScript.Mode.READ_WRITE,
                take + ", 'BLOCK', '1000', 'NOTIFY', 'channel', 'ONCE')", RScript.ReturnType.LIST, List.of(key), "waiter"));
            assertThrows(RedisException.class, () -> redisson.getLock(key).tryLock()); // the error is WRONGTYPE
        } finally {
            threads.shutdownNow();
            redisson.shutdown();
        }
    }
}
