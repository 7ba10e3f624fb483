package redislock;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.lettuce.core.RedisClient;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.logging.Handler;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

class ObserverTest extends Support {
    record Event(String name, LockObserver.Mode mode, Duration time, Object what, Thread thread) {}

    private final BlockingQueue<Event> events = new ArrayBlockingQueue<>(100);
    private Locks seen;
    private final LockObserver observer = new LockObserver() {
        @Override
        public void waiting(List<String> keys, Mode mode) {
            tell("waiting", mode, null, keys);
        }

        @Override
        public void acquired(List<String> keys, Mode mode, Duration waited, long fence) {
            tell("acquired", mode, waited, fence);
        }

        @Override
        public void refused(List<String> keys, Mode mode, Duration waited, Outcome outcome, Exception reason) {
            tell("refused", mode, waited, outcome);
        }

        @Override
        public void released(List<String> keys, Mode mode, Duration held) {
            tell("released", mode, held, keys);
        }

        @Override
        public void lost(List<String> keys, Mode mode, Duration held, LockException.Lost reason) {
            tell("lost", mode, held, reason.reason());
        }
    };

    @BeforeEach
    void observe() {
        seen = new Locks(client, observer);
    }

    private void tell(String name, LockObserver.Mode mode, Duration time, Object what) {
        events.add(new Event(name, mode, time, what, Thread.currentThread()));
    }

    @AfterEach
    void end() {
        seen.close();
    }

    private Event next(String name, Object what) throws InterruptedException {
        Event event = events.poll(20, TimeUnit.SECONDS);
        assertEquals(name, event == null ? null : event.name);
        if (what != null) assertEquals(what, event.what);
        return event;
    }

    @Test
    void whatIsFreeIsAcquiredWithoutAWait() throws Exception {
        try (var held = seen.acquire(key, o -> o.limit(2))) {
            assertEquals(LockObserver.Mode.LIMIT, next("acquired", held.fence()).mode);
        }
        assertEquals(Thread.currentThread(), next("released", List.of(key)).thread);
        seen.acquire(key, o -> o.shared().label("LIMIT")).releaseIn(Duration.ofSeconds(20));
        assertEquals(LockObserver.Mode.SHARED, next("acquired", null).mode);
        next("released", null);
        assertTrue(events.isEmpty());
    }

    @Test
    void anAcquireThatHasToWaitSaysSoInItsThread() throws Exception {
        othersHold();
        var other = Other.does(() -> seen.acquire(key));
        var waits = next("waiting", List.of(key));
        assertEquals(other.thread(), waits.thread);
        Thread.sleep(20); // which the wait takes at least
        othersRelease();
        var held = other.result();
        var got = next("acquired", held.fence());
        assertEquals(other.thread(), got.thread);
        assertEquals(LockObserver.Mode.EXCLUSIVE, got.mode);
        assertTrue(got.time.toMillis() >= 20, got.toString());
        held.close();
        next("released", null);
        held.close();
        assertTrue(events.isEmpty());
    }

    @Test
    void whatIsRefusedIsToldWhy() throws Exception {
        othersHold();
        assertTrue(seen.tryAcquire(key).isEmpty());
        next("refused", LockObserver.Outcome.BUSY);
        var error = assertThrows(LockException.NotAcquired.class, () -> seen.acquire(key, o -> o.wait(Duration.ofSeconds(1))));
        assertEquals(key + " is not free", error.getMessage());
        next("waiting", null);
        assertTrue(next("refused", LockObserver.Outcome.TIMEOUT).time.toMillis() >= 1000);
        var other = Other.does(() -> seen.acquire(key));
        next("waiting", null);
        other.thread().interrupt();
        other.failure();
        next("refused", LockObserver.Outcome.CANCELLED);
        var held = seen.acquire("2" + key, o -> o.owner("me" + key));
        next("acquired", null);
        send("LOCK.ACQUIRE", "2" + key, "OWNER", "others", "NOTIFY", "channel", "ONCE", "BLOCK", "0");
        assertThrows(LockException.Deadlock.class, () -> seen.acquire(key, o -> o.owner("me" + key).detect()));
        next("refused", LockObserver.Outcome.DEADLOCK);
        held.close();
        next("released", null);
        assertThrows(RuntimeException.class, () -> seen.acquire(key, o -> o.limit(5000)));
        next("refused", LockObserver.Outcome.ERROR);
        var last = Other.does(() -> seen.acquire(key));
        next("waiting", null);
        seen.close();
        last.failure();
        next("refused", LockObserver.Outcome.CLOSED);
        assertTrue(events.isEmpty());
    }

    @Test
    void aLossIsToldOnceWithItsReason() throws Exception {
        var held = seen.acquire(key);
        next("acquired", null);
        send("LOCK.BREAK", key);
        next("lost", "the server says that it has ended");
        assertThrows(LockException.Lost.class, held::close);

        var found = seen.acquire(key);
        next("acquired", null);
        send("LOCK.RELEASE", key, found.owner()); // of which nobody is told
        var lost = assertThrows(LockException.Lost.class, found::close);
        assertTrue(lost.getMessage().startsWith(key + " was lost: NOTHELD "), lost.getMessage());
        next("lost", "the server says that it is not held");

        var both = seen.acquire(List.of("{" + key + "}a", "{" + key + "}b"), o -> {});
        next("acquired", null);
        send("SET", "{" + key + "}a", "text");
        assertThrows(LockException.Lost.class, both::extend);
        var event = next("lost", null);
        assertTrue(event.what.toString().startsWith("the server says "), event.what.toString());
        assertTrue(events.isEmpty());
    }

    @Test
    void closingTheLocksReleasesThem() throws Exception {
        seen.acquire(key);
        next("acquired", null);
        seen.close();
        next("released", null);
    }

    @Test
    void whatCantBeGivenBackWhenTheLocksAreClosedIsLost() throws Exception {
        try (var proxy = new Proxy(); var way = RedisClient.create(proxy.url())) {
            var away = new Locks(way, observer);
            away.acquire(key, o -> o.lease(Duration.ofSeconds(1)));
            next("acquired", null);
            away.acquire(key + "2");
            next("acquired", null);
            proxy.shut();
            away.close();
            for (int i = 0; i < 2; i++) next("lost", "the locks were closed");
        }
        assertTrue(events.isEmpty());
    }

    @Test
    void anObserverThatFailsIsLoggedAndChangesNothing() throws Exception {
        var logged = new ArrayBlockingQueue<LogRecord>(10);
        var handler = new Handler() {
            @Override
            public void publish(LogRecord record) {
                logged.add(record);
            }

            @Override
            public void flush() {}

            @Override
            public void close() {}
        };
        Logger log = Logger.getLogger("redislock");
        log.addHandler(handler);
        log.setUseParentHandlers(false);
        try (var broken = new Locks(client, new LockObserver() {
            @Override
            public void acquired(List<String> keys, Mode mode, Duration waited, long fence) {
                throw new IllegalStateException("not today");
            }
        }); var held = broken.acquire(key)) {
            assertTrue(held.isHeld());
            assertEquals("not today", logged.remove().getThrown().getMessage());
        } finally {
            log.removeHandler(handler);
            log.setUseParentHandlers(true);
        }
        assertTrue(logged.isEmpty());
        untilFree();
    }
}
