import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.lettuce.core.RedisClient;
import io.lettuce.core.cluster.RedisClusterClient;
import java.net.URI;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.redisson.Redisson;
import org.redisson.api.RScript;
import org.redisson.client.RedisException;
import org.redisson.client.codec.StringCodec;
import org.redisson.config.Config;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.UnifiedJedis;
import redis.clients.jedis.commands.ProtocolCommand;

/** The program for a shared connection: many threads, two connections, Lettuce's defaults. Jedis looks on. */
@Timeout(60)
class LocksTest {
    private static final Duration LEASE = Duration.ofSeconds(30), WAIT = Duration.ofMinutes(1);
    private final UnifiedJedis other = redis.clients.jedis.RedisClient.create(Support.URL);
    private final String key = UUID.randomUUID().toString();
    private RedisClient client;
    private LettuceLocks locks;

    @BeforeEach
    void open() {
        client = RedisClient.create(Support.URL);
        locks = new LettuceLocks(client.connect().async(), client.connectPubSub());
    }

    @AfterEach
    void end() {
        client.close();
        other.close();
    }

    @Test
    void aHundredThreadsAreServedOneByOneAsTheyAskedOverTwoConnections() throws Exception {
        Callable<String> received = () -> other.info("stats").lines().filter(line -> line.startsWith("total_connections_received:"))
            .findFirst().get();
        String before = received.call();
        assertEquals(inOrder(100), allAtOnce(locks, 100, true, done -> {}));
        assertEquals(before, received.call());
    }

    @Test
    void fiveHundredBuyersOfFiveArticlesAndNothingIsSoldTwice() throws Exception {
        for (int article = 0; article < 5; article++) other.set(key + article, "20");
        var shared = client.connect().sync();
        var sold = new AtomicInteger();
        inThreads(500, buyer -> {
            String article = key + buyer % 5;
            try (var lock = locks.acquire("lock:" + article, LEASE, WAIT)) {
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
    void allAreServedThoughTheSubscriptionIsCut() throws Exception {
        Meanwhile cut = done -> {
            if (done == 30) assertEquals(1L, send("CLIENT", "KILL", "TYPE", "pubsub"));
        };
        assertEquals(inOrder(100), sorted(allAtOnce(locks, 100, false, cut)));
    }

    @Test
    void aLostMessageCostsSecondsAndNotTheLock() throws Exception {
        send("LOCK.ACQUIRE", key, "OWNER", "other");
        var waiting = start(() -> locks.acquire(key, LEASE, WAIT).fence());
        untilWaiters(1);
        // Its place is taken over by another channel, as if the message were lost.
        var queue = (List<?>) Support.field(send("LOCK.INFO", key, "FULL"), "queue");
        String owner = Support.text(Support.field(queue.get(0), "owner"));
        var elsewhere = client.connectPubSub().sync();
        elsewhere.subscribe(key);
        try (var connection = new Jedis(URI.create(Support.URL))) {
            var ask = new String[] {key, "OWNER", owner, "BLOCK", "60000", "NOTIFY", key, "ONCE"};
            ProtocolCommand acquire = "LOCK.ACQUIRE"::getBytes;
            assertEquals("QUEUED", Support.text(connection.sendCommand(acquire, ask)));
            send("LOCK.RELEASE", key, "other");
            assertTrue(waiting.get(30, TimeUnit.SECONDS) > 0);
        }
    }

    @Test
    void aThreadThatIsInterruptedLeavesTheQueue() throws Exception {
        try (var lock = locks.acquire(key, LEASE, WAIT)) {
            var waiting = new FutureTask<>(() -> locks.acquire(key, LEASE, WAIT));
            var thread = new Thread(waiting);
            thread.start();
            untilWaiters(1);
            thread.interrupt();
            var stopped = assertThrows(ExecutionException.class, () -> waiting.get(30, TimeUnit.SECONDS));
            // Lettuce has an exception of its own for one that still waits for the reply.
            assertTrue(stopped.getCause().toString().contains("Interrupted"), stopped.toString());
            untilWaiters(0);
        }
    }

    @Test
    void aThreadThatIsInterruptedBeforeTheReplyLeavesNothingBehind() throws Exception {
        for (int at = 0; at < 50; at++) {
            var waiting = start(() -> {
                Thread.currentThread().interrupt();
                try (var lock = locks.acquire(key, Duration.ofHours(1), WAIT)) {
                    return null; // the reply was quicker
                }
            });
            try {
                waiting.get(30, TimeUnit.SECONDS);
            } catch (ExecutionException interrupted) {
                assertTrue(interrupted.getCause().toString().contains("Interrupted"), interrupted.toString());
            }
            Support.waitFor("it is free", () -> !other.exists(key));
        }
    }

    @Test
    void aThreadWaitsNoLongerThanAskedAndLeavesTheQueue() throws Exception {
        try (var lock = locks.acquire(key, LEASE, WAIT)) {
            assertThrows(TimeoutException.class, () -> locks.acquire(key, LEASE, Duration.ofMillis(20)));
            untilWaiters(0);
        }
    }

    @Test
    void aLostLockDoesNotGoUnnoticedAndHidesNothing() throws Exception {
        var lost = assertThrows(Exception.class, () -> {
            try (var lock = locks.acquire(key, LEASE, WAIT)) {
                send("LOCK.BREAK", key);
            }
        });
        assertTrue(lost.getMessage().startsWith("NOTHELD "), lost.getMessage());
        var failed = assertThrows(ArithmeticException.class, () -> {
            try (var lock = locks.acquire(key, LEASE, WAIT)) {
                send("LOCK.BREAK", key);
                throw new ArithmeticException("of the block");
            }
        });
        assertTrue(failed.getSuppressed()[0].getMessage().startsWith("NOTHELD "));
        other.set(key, "no lock");
        var noLock = assertThrows(Exception.class, () -> locks.acquire(key, LEASE, WAIT));
        assertTrue(noLock.getMessage().startsWith("WRONGTYPE "), noLock.getMessage());
    }

    @Test
    void aThreadThatIsSentAwayIsToldWhy() throws Exception {
        send("LOCK.ACQUIRE", key, "OWNER", "other");
        var waiting = start(() -> locks.acquire(key, LEASE, WAIT));
        untilWaiters(1);
        other.set(key, "no lock");
        var told = assertThrows(ExecutionException.class, () -> waiting.get(30, TimeUnit.SECONDS));
        assertTrue(told.getCause().getMessage().startsWith("WRONGTYPE "), told.toString());
    }

    @Test
    void inAClusterAHundredThreadsAreServedOneByOne() throws Exception {
        try (var cluster = RedisClusterClient.create(System.getenv("CLUSTER_URL"))) {
            var locks = new LettuceLocks(cluster.connect().async(), cluster.connectPubSub());
            assertEquals(inOrder(100), sorted(allAtOnce(locks, 100, false, done -> {})));
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
            inThreads(100, at -> {
                try (var lock = locks.acquire(key, LEASE, WAIT)) {
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

    private interface Meanwhile {
        void call(int done) throws Exception;
    }

    /** So many threads at once; what they did, in order. */
    private List<Integer> allAtOnce(LettuceLocks locks, int count, boolean oneAfterTheOther, Meanwhile meanwhile) throws Exception {
        var inside = new AtomicInteger();
        var done = Collections.synchronizedList(new ArrayList<Integer>());
        var threads = new ArrayList<FutureTask<Void>>();
        try (var first = locks.acquire(key, LEASE, WAIT)) {
            for (int at = 0; at < count; at++) {
                int number = at;
                threads.add(start(() -> {
                    try (var lock = locks.acquire(key, LEASE, WAIT)) {
                        assertEquals(1, inside.incrementAndGet(), "two are inside");
                        Thread.sleep(1); // the others' chance
                        inside.decrementAndGet();
                        done.add(number);
                        meanwhile.call(done.size());
                    }
                    return null;
                }));
                if (oneAfterTheOther) untilWaiters(number + 1);
            }
        }
        for (var thread : threads) thread.get(30, TimeUnit.SECONDS);
        return done;
    }

    private interface Job {
        void call(int number) throws Exception;
    }

    private static void inThreads(int count, Job job) throws Exception {
        var threads = IntStream.range(0, count).mapToObj(number -> start(() -> {
            job.call(number);
            return null;
        })).toList();
        for (var thread : threads) thread.get(30, TimeUnit.SECONDS);
    }

    private static <T> FutureTask<T> start(Callable<T> work) {
        var task = new FutureTask<>(work);
        var thread = new Thread(task);
        thread.setDaemon(true);
        thread.start();
        return task;
    }

    private void untilWaiters(long count) throws Exception {
        Support.waitFor(count + " wait", () -> Support.field(send("LOCK.INFO", key), "waiters").equals(count));
    }

    private Object send(String command, String... words) {
        return other.sendCommand(command::getBytes, words);
    }

    private static List<Integer> inOrder(int count) {
        return IntStream.range(0, count).boxed().toList();
    }

    private static List<Integer> sorted(List<Integer> numbers) {
        return numbers.stream().sorted().toList();
    }
}
