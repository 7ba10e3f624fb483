import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.net.URI;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import redis.clients.jedis.RedisClient;
import redis.clients.jedis.RedisClusterClient;
import redis.clients.jedis.commands.ProtocolCommand;
import redis.clients.jedis.util.JedisURIHelper;

/** Many threads, with Jedis' clients as the docs make them: waits need none of the connections of the others. */
class ManyThreadsTest {
    private static final ProtocolCommand ACQUIRE = "LOCK.ACQUIRE"::getBytes, RELEASE = "LOCK.RELEASE"::getBytes,
        INFO = "LOCK.INFO"::getBytes;
    private final RedisClient client = RedisClient.create(Support.URL);
    private final RedisClient waiting = Support.jedisThatWaits(100);
    private final Locks locks = new Locks(client, waiting, 60_000);
    private final ExecutorService threads = Executors.newCachedThreadPool(work -> {
        var thread = new Thread(work);
        thread.setDaemon(true);
        return thread;
    });

    @AfterEach
    void end() {
        threads.shutdownNow();
        client.close();
        waiting.close();
    }

    private interface Work {
        void run(int number) throws Exception;
    }

    private List<Future<?>> start(int count, Work work) {
        var started = new ArrayList<Future<?>>();
        for (int at = 0; at < count; at++) {
            int number = at;
            started.add(threads.submit((Callable<Void>) () -> {
                work.run(number);
                return null;
            }));
        }
        return started;
    }

    private static void expectAll(List<Future<?>> started) throws Exception {
        for (var done : started) done.get(30, TimeUnit.SECONDS);
    }

    private void othersTake(String key) {
        client.sendCommand(ACQUIRE, key, "OWNER", "other", "PX", "60000");
    }

    private void untilOneWaits(String key) throws Exception {
        Support.waitFor("one waits at the server", () -> Support.field(client.sendCommand(INFO, key), "waiters").equals(1L));
    }

    private void takeTurns(Locks locks, int threads, int rounds) throws Exception {
        String key = UUID.randomUUID().toString();
        var inside = new AtomicInteger();
        var fences = new ArrayList<Long>(); // behind the lock
        expectAll(start(threads, number -> {
            for (int round = 0; round < rounds; round++) {
                try (var lock = locks.acquire(key, 60_000)) {
                    assertEquals(1, inside.incrementAndGet());
                    Thread.sleep(0, 100_000); // the others' chance
                    inside.decrementAndGet();
                    fences.add(lock.fence());
                }
            }
        }));
        assertEquals(threads * rounds, fences.size());
        assertEquals(fences.stream().sorted().toList(), fences);
        assertTrue(locks.turns.isEmpty(), "turns that nobody needs are left");
    }

    @Test
    void aHundredThreadsTakeTurnsAtOneLock() throws Exception {
        takeTurns(locks, 100, 20);
    }

    @Test
    void threadsTakeTurnsOnACluster() throws Exception {
        var nodes = Set.of(JedisURIHelper.getHostAndPort(URI.create(System.getenv("CLUSTER_URL"))));
        try (var client = RedisClusterClient.create(nodes); var waiting = Support.jedisThatWaitsOnACluster(nodes)) {
            var locks = new Locks(client, waiting, 60_000);
            takeTurns(locks, 20, 20);
            try (var lock = locks.acquire("door", 60_000)) {
                assertThrows(TimeoutException.class, () -> new Locks(client, waiting, 20).acquire("door", 60_000));
            }
        }
    }

    @Test
    void fiveHundredBuyersOfFiveArticles() throws Exception {
        String sale = UUID.randomUUID().toString();
        for (int article = 0; article < 5; article++) client.set(sale + article, "40");
        int[] sold = new int[5]; // each behind its lock
        expectAll(start(500, number -> {
            String article = sale + number % 5;
            try (var lock = locks.acquire("lock:" + article, 60_000)) {
                int left = Integer.parseInt(client.get(article));
                Thread.sleep(2); // the others' chance
                if (left > 0) {
                    client.set(article, "" + (left - 1));
                    sold[number % 5]++;
                }
            }
        }));
        assertArrayEquals(new int[] {40, 40, 40, 40, 40}, sold);
    }

    /** The holder of the outer lock waits for the inner one, while more threads than there are connections wait for the outer. */
    @Test
    void thoseWhoWaitForOneLockDoNotHinderAnother() throws Exception {
        String outer = UUID.randomUUID().toString(), inner = UUID.randomUUID().toString();
        othersTake(inner);
        try (var two = Support.jedisThatWaits(2)) {
            var locks = new Locks(client, two, 60_000);
            List<Future<?>> later;
            try (var lock = locks.acquire(outer, 60_000)) {
                later = start(20, number -> locks.acquire(outer, 60_000).close());
                untilOneWaits(outer);
                var nested = start(1, number -> locks.acquire(inner, 60_000).close());
                untilOneWaits(inner);
                client.sendCommand(RELEASE, inner, "other");
                expectAll(nested);
            }
            expectAll(later);
        }
    }

    /** More of them than the client has connections. */
    @Test
    void waitsNeedNoneOfTheClientsConnections() throws Exception {
        String door = UUID.randomUUID().toString();
        for (int number = 0; number < 20; number++) othersTake(door + number);
        var started = start(20, number -> locks.acquire(door + number, 60_000).close());
        for (int number = 0; number < 20; number++) untilOneWaits(door + number);
        for (int number = 0; number < 20; number++) client.sendCommand(RELEASE, door + number, "other");
        expectAll(started);
    }

    @Test
    void thoseWhoWaitInVainAreTold() throws Exception {
        String key = UUID.randomUUID().toString();
        othersTake(key);
        var impatient = new Locks(client, waiting, 50);
        expectAll(start(20, number -> assertThrows(TimeoutException.class, () -> impatient.acquire(key, 60_000))));
    }
}
