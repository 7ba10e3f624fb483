package redislock;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisException;
import io.lettuce.core.RedisURI;
import io.lettuce.core.resource.ClientResources;
import io.lettuce.core.resource.DefaultClientResources;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.URI;
import java.time.Duration;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** What becomes of locks when the client, its server, or the lock around them ends. */
class EndsTest extends Support {
    private static Set<Thread> threads() {
        return Thread.getAllStackTraces().keySet().stream().filter(thread -> thread.getName().startsWith("redislock-")).collect(Collectors.toSet());
    }

    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void aClosedClientEndsWhatWasMadeOfIt(boolean shared) throws Exception {
        ClientResources resources = shared ? DefaultClientResources.create() : null;
        String url = System.getenv("REDIS_URL");
        var own = shared ? RedisClient.create(resources, url) : RedisClient.create(url);
        var before = threads();
        var made = new Locks(own);
        var held = made.acquire(key + "2");
        othersHold();
        var waiting = Other.does(() -> made.acquire(key));
        untilWaiters(1);
        own.shutdown();
        assertInstanceOf(LockException.Closed.class, waiting.failure());
        assertTrue(held.lost().get(20, TimeUnit.SECONDS).getMessage().contains("client"));
        assertThrows(LockException.Lost.class, held::close);
        assertThrows(LockException.Closed.class, () -> made.acquire(key));
        made.close();
        if (!shared) { // a shared client does not say that it is closed: it tries to connect for ever
            assertThrows(LockException.Closed.class, () -> new Locks(own).acquire(key));
        }
        until(() -> before.containsAll(threads()));
        if (shared) resources.shutdown();
    }

    /** Lettuce tries to connect for ever if its client is closed meanwhile. */
    @Test
    void aClientMayBeClosedAtAnyMoment() throws Exception {
        var before = threads();
        for (int round = 0; round < 20; round++) {
            var own = RedisClient.create(System.getenv("REDIS_URL"));
            var made = new Locks(own);
            var user = Other.does(() -> {
                while (true) made.acquire(key).close();
            });
            Thread.sleep(round);
            own.shutdown();
            assertInstanceOf(LockException.class, user.failure());
        }
        until(() -> before.containsAll(threads()));
    }

    @Test
    void aLostLockDoesNotKeepTheOneInsideFromBeingReleased() throws Exception {
        var lost = assertThrows(LockException.Lost.class, () -> {
            try (var outer = locks.acquire(key); var inner = locks.acquire(key + "2")) {
                send("LOCK.BREAK", key);
                outer.lost().get(20, TimeUnit.SECONDS);
                inner.check();
            }
        });
        assertEquals(0, lost.getSuppressed().length);
        assertEquals(0L, client.connect().sync().exists(key + "2"));
        var lock = locks.lock(key);
        lock.lock();
        lock.lock();
        send("LOCK.BREAK", key);
        locks.heldByThread(key).orElseThrow().lost().get(20, TimeUnit.SECONDS);
        lock.unlock(); // the inner lock() ends without an error
        assertThrows(LockException.Lost.class, lock::unlock);
        assertThrows(IllegalMonitorStateException.class, lock::unlock);
    }

    @Test
    void aListenerThatFailsKeepsNobodyElseFromHearingOfTheLossOnce() throws Exception {
        var held = locks.acquire(key);
        var told = new AtomicInteger();
        var last = new CountDownLatch(2);
        for (boolean fails : new boolean[] {false, true, false}) {
            held.lost().thenAccept(loss -> {
                if (fails) throw new IllegalStateException("of the user");
                told.incrementAndGet();
                last.countDown();
            });
        }
        send("LOCK.BREAK", key);
        assertTrue(last.await(20, TimeUnit.SECONDS));
        assertThrows(LockException.Lost.class, held::close);
        try (var next = locks.acquire(key)) {
            next.extend();
        }
        assertEquals(2, told.get());
    }

    @Test
    void aPlaceThatEndsWithItsConnectionIsSoonTakenAgain() throws Exception {
        othersHold();
        var waiting = Other.does(() -> locks.acquire(key));
        untilWaiters(1);
        send("CLIENT", "KILL", "TYPE", "normal"); // KILL spares the connection that sends it
        var began = System.nanoTime();
        untilWaiters(1);
        assertTrue(System.nanoTime() - began < Duration.ofSeconds(3).toNanos(), "it was asked for again after 4 s only");
        othersRelease();
        waiting.result().close();
    }

    /** Asks once, and returns how many ms it takes to learn that there is no answer. */
    private long asksOnce(Locks locks) {
        long began = System.nanoTime();
        assertThrows(RedisException.class, () -> locks.tryAcquire(key));
        return TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - began);
    }

    @Test
    void whoAsksOnceASilentServerIsToldAfterTheTimeOfTheClient() throws Exception {
        var uri = RedisURI.create("redis://127.0.0.1");
        uri.setTimeout(Duration.ofSeconds(2));
        try (var silent = new ServerSocket(0, 50, InetAddress.getLoopbackAddress())) {
            uri.setPort(silent.getLocalPort());
            try (var way = RedisClient.create(uri); var nowhere = new Locks(way)) {
                long took = asksOnce(nowhere);
                assertTrue(took >= 1990 && took < 3990, took + " ms");
            }
        }
        try (var proxy = new Proxy()) {
            uri.setPort(URI.create(proxy.url()).getPort());
            try (var way = RedisClient.create(uri); var frozen = new Locks(way)) {
                frozen.acquire(key).close();
                proxy.freeze();
                long took = asksOnce(frozen);
                assertTrue(took >= 1990 && took < 3990, took + " ms");
                proxy.shut();
            }
        }
    }
}
