import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.lettuce.core.RedisClient;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.Callable;
import java.util.concurrent.FutureTask;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
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

/** The package with many threads, and beside Redisson. Jedis looks on. */
@Timeout(60)
class LocksTest {
    private final UnifiedJedis other = redis.clients.jedis.RedisClient.create(Support.URL);
    private final String key = UUID.randomUUID().toString();
    private final RedisClient client = RedisClient.create(Support.URL);
    private final Locks locks = new Locks(client);

    @AfterEach
    void end() {
        locks.close();
        client.close();
        other.close();
    }

    @Test
    void fiveHundredBuyersOfFiveArticlesAndNothingIsSoldTwice() throws Exception {
        for (int article = 0; article < 5; article++) other.set(key + article, "20");
        var shared = client.connect().sync();
        var sold = new AtomicInteger();
        Support.inThreads(500, buyer -> {
            String article = key + buyer % 5;
            try (var held = locks.acquire("lock:" + article)) {
                int left = Integer.parseInt(shared.get(article));
                Thread.sleep(1); // the others' chance
                if (left > 0) {
                    shared.set(article, "" + (left - 1));
                    sold.incrementAndGet();
                }
            }
        });
        assertEquals(100, sold.get());
        for (int article = 0; article < 5; article++) assertEquals("0", other.get(key + article));
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
            Support.waitFor("it is free", () -> !other.exists(key));
        }
    }

    @Test
    void besideRedissonItsObjectsAreSafeInTheBlock() throws Exception {
        var config = new Config();
        config.useSingleServer().setAddress(Support.URL);
        var redisson = Redisson.create(config);
        try {
            var number = redisson.<Integer>getBucket("number:" + key);
            number.set(0);
            Support.inThreads(100, at -> {
                try (var held = locks.acquire(key)) {
                    int before = number.get();
                    number.set(before + 1);
                }
            });
            assertEquals(100, number.get());

            // A script takes a lock, but can't wait for it.
            var script = redisson.getScript(StringCodec.INSTANCE);
            String take = "return redis.call('LOCK.ACQUIRE', KEYS[1], 'OWNER', ARGV[1]";
            Callable<List<Object>> taken = () -> script.eval(RScript.Mode.READ_WRITE, take + ")", RScript.ReturnType.LIST, List.of(key), "script");
            assertEquals("script", taken.call().get(0));
            assertThrows(RedisException.class, () -> script.eval(RScript.Mode.READ_WRITE,
                take + ", 'BLOCK', '1000', 'NOTIFY', 'channel', 'ONCE')", RScript.ReturnType.LIST, List.of(key), "waiter"));
            assertThrows(RedisException.class, () -> redisson.getLock(key).tryLock()); // WRONGTYPE
        } finally {
            redisson.shutdown();
        }
    }
}
