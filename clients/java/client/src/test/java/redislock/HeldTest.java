package redislock;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.lettuce.core.ClientOptions;
import io.lettuce.core.RedisChannelHandler;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisConnectionException;
import io.lettuce.core.RedisConnectionStateListener;
import io.lettuce.core.RedisURI;
import io.lettuce.core.api.StatefulRedisConnection;
import java.time.Duration;
import java.util.ArrayList;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import org.junit.jupiter.api.Test;

/** Tests what the conformance scenarios leave out. */
class HeldTest extends Support {
    private static final Duration SHORT = Duration.ofMillis(300);

    @Test
    void aLostLockIsToldByItsFutureAndBesideWhatWentWrongInTheBlock() throws Exception {
        var failed = assertThrows(ArithmeticException.class, () -> {
            try (var held = locks.acquire(key)) {
                send("LOCK.BREAK", key);
                assertInstanceOf(LockException.Lost.class, held.lost().get(20, TimeUnit.SECONDS));
                assertFalse(held.isHeld());
                assertEquals(Duration.ZERO, held.lease());
                assertThrows(LockException.Lost.class, held::check);
                assertThrows(LockException.Lost.class, () -> held.extend(SHORT));
                throw new ArithmeticException("of the block");
            }
        });
        assertInstanceOf(LockException.Lost.class, failed.getSuppressed()[0]);
    }

    @Test
    void askingForTheLossAgainAndAgainTakesNoMemoryAndNobodyElseDecidesIt() throws Exception {
        try (var held = locks.acquire(key)) {
            for (int times = 0; times < 1000; times++) assertFalse(held.lost().isDone());
            assertEquals(0, held.lost().getNumberOfDependents());
            assertSame(held.lost(), held.lost());
            assertFalse(held.lost().complete(null) || held.lost().cancel(true));
            assertThrows(ExecutionException.class, () -> held.lost().orTimeout(1, TimeUnit.MILLISECONDS).get());
            assertNull(held.lost().completeOnTimeout(null, 1, TimeUnit.MILLISECONDS).get());
            assertFalse(held.lost().isDone());
        }
    }

    @Test
    void aListenerThatBlocksDoesNotKeepOthersFromBeingRenewed() throws Exception {
        var slow = locks.acquire(key);
        var goOn = new CompletableFuture<Void>().completeOnTimeout(null, 15, TimeUnit.SECONDS);
        slow.lost().thenRun(goOn::join);
        send("LOCK.BREAK", key);
        until(() -> !slow.isHeld());
        try (var other = locks.acquire(key, o -> o.lease(Duration.ofSeconds(3)))) {
            until(() -> (Long) info("lease-ms") < 2500);
            until(() -> (Long) info("lease-ms") > 2500);
            assertTrue(other.isHeld());
        }
        assertTrue(goOn.complete(null), "it came only after the listener");
    }

    @Test
    void whoCannotReachTheServerIsToldSo() {
        try (var client = RedisClient.create("redis://127.0.0.1:1"); var nowhere = new Locks(client)) {
            var failed = assertThrows(LockException.NotAcquired.class, () -> nowhere.acquire(key, o -> o.wait(Duration.ofSeconds(3))));
            assertTrue(failed.getMessage().contains("127.0.0.1"), failed.getMessage());
            assertInstanceOf(RedisConnectionException.class, failed.getCause());
        }
    }

    @Test
    void closedTwiceItIsReleasedOnce() throws Exception {
        var held = locks.acquire(key);
        held.close();
        othersHold();
        held.close();
        assertEquals("others", info("owner"));
        assertThrows(IllegalStateException.class, () -> held.extend(SHORT));
        assertFalse(held.lost().isDone());
    }

    @Test
    void releasedLaterItOutlivesTheLocksButNotThatTime() throws Exception {
        var held = locks.acquire(key, o -> o.lease(Duration.ofMinutes(1)));
        held.releaseIn(Duration.ofMillis(800));
        long end = System.nanoTime() + Duration.ofMillis(750).toNanos();
        held.close();
        locks.close();
        while (System.nanoTime() < end) assertEquals(held.owner(), info("owner"));
        untilFree();
        assertFalse(held.lost().isDone());
    }

    @Test
    void anotherThreadMayCloseIt() throws Exception {
        var held = locks.acquire(key);
        inAnotherThread(() -> {
            held.close();
            return true;
        });
        untilFree();
    }

    @Test
    void whenTheLocksAreClosedWaitsEndAndNoneBegins() throws Exception {
        othersHold();
        var waiting = Other.does(() -> locks.acquire(key));
        untilWaiters(1);
        locks.close();
        assertInstanceOf(LockException.Closed.class, waiting.failure());
        assertThrows(LockException.Closed.class, () -> locks.acquire(key));
        assertThrows(LockException.Closed.class, () -> locks.tryAcquire(key));
        untilWaiters(0);
    }

    @Test
    void whoReleasesWhileTheLocksAreClosedWithoutAServerDoesNotWaitForEver() throws Exception {
        try (var proxy = new Proxy(); var way = RedisClient.create(proxy.url())) {
            var away = new Locks(way);
            var held = away.acquire(key);
            var late = away.acquire(key + "2");
            proxy.shut();
            var releases = Other.does(() -> {
                held.close();
                return true;
            });
            until(() -> !held.isHeld());
            away.close();
            assertInstanceOf(LockException.Closed.class, releases.failure());
            assertInstanceOf(LockException.Closed.class, Other.does(() -> {
                late.close();
                return true;
            }).failure());
        }
    }

    /** A client whose first connection for commands breaks before anybody has used it. */
    private static final class Unlucky extends RedisClient {
        private final Proxy proxy;
        private boolean cut;

        Unlucky(Proxy proxy) {
            super(null, RedisURI.create(proxy.url()));
            this.proxy = proxy;
            setOptions(ClientOptions.builder().autoReconnect(false).build()); // else Lettuce would hide that the package does not reconnect
        }

        @Override
        public StatefulRedisConnection<String, String> connect() {
            var made = super.connect();
            if (cut) return made;
            cut = true;
            var gone = new CompletableFuture<Void>();
            addListener(new RedisConnectionStateListener() {
                @Override
                public void onRedisDisconnected(RedisChannelHandler<?, ?> connection) {
                    if (connection == made) gone.complete(null);
                }
            });
            proxy.cut();
            gone.join();
            return made;
        }
    }

    @Test
    void aConnectionThatBreaksBeforeItIsUsedIsMadeAnew() throws Exception {
        try (var proxy = new Proxy(); var unlucky = new Unlucky(proxy); var shaky = new Locks(unlucky)) {
            shaky.acquire(key, o -> o.wait(Duration.ofSeconds(20))).close();
        }
    }

    @Test
    void connectionsThatBreakAtAnyMomentAreMadeAnew() throws Exception {
        try (var proxy = new Proxy(); var way = RedisClient.create(proxy.url())) {
            way.setOptions(ClientOptions.builder().autoReconnect(false).build()); // else Lettuce would hide that the package does not reconnect
            try (var shaky = new Locks(way)) {
                var over = new AtomicBoolean();
                var others = new ArrayList<Other<?>>();
                for (int number = 0; number < 8; number++) {
                    String own = key + number;
                    others.add(Other.does(() -> {
                        while (!over.get()) shaky.acquire(own, o -> o.wait(Duration.ofSeconds(20))).close();
                        return true;
                    }));
                }
                for (int cuts = 0; cuts < 300; cuts++) {
                    proxy.cut();
                    Thread.sleep(cuts % 20);
                }
                over.set(true);
                for (var each : others) each.result();
                shaky.acquire(key, o -> o.wait(Duration.ofSeconds(20))).close();
            }
            for (int number = 0; number < 8; number++) assertEquals(0L, client.connect().sync().exists(key + number));
        }
    }

    @Test
    void tryAcquireIsEmptyIfOthersHoldIt() {
        othersHold();
        assertTrue(locks.tryAcquire(key).isEmpty());
        othersRelease();
        try (var held = locks.tryAcquire(key).orElseThrow()) {
            assertTrue(held.lease().compareTo(Duration.ofSeconds(20)) > 0);
        }
    }

    @Test
    void whatElseTheServerSaysIsLettucesOwnException() {
        client.connect().sync().set(key, "no lock");
        var failed = assertThrows(io.lettuce.core.RedisCommandExecutionException.class, () -> locks.acquire(key));
        assertTrue(failed.getMessage().startsWith("WRONGTYPE"), failed.getMessage());
    }
}
