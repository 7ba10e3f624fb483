package redislock;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.List;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.logging.Handler;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import org.junit.jupiter.api.Test;

/** Tests in which thread an observer is called. (tests/clients/conformance/driver/scenarios_observer.py tests what it is told.) */
class ObserverTest extends Support {
    @Test
    void anAcquireThatHasToWaitSaysSoInItsThread() throws Exception {
        record Event(Object what, LockObserver.Mode mode, Thread thread) {}
        var events = new ArrayBlockingQueue<Event>(10);
        var seen = new Locks(client, new LockObserver() {
            @Override
            public void waiting(List<String> keys, Mode mode) {
                events.add(new Event(keys, mode, Thread.currentThread()));
            }

            @Override
            public void acquired(List<String> keys, Mode mode, Duration waited, long fence) {
                events.add(new Event(fence, mode, Thread.currentThread()));
            }

            @Override
            public void released(List<String> keys, Mode mode, Duration held) {
                events.add(new Event(keys, mode, Thread.currentThread()));
            }
        });
        othersHold();
        var other = Other.does(() -> seen.acquire(key));
        assertEquals(new Event(List.of(key), LockObserver.Mode.EXCLUSIVE, other.thread()), events.poll(20, TimeUnit.SECONDS));
        othersRelease();
        var held = other.result();
        assertEquals(new Event(held.fence(), LockObserver.Mode.EXCLUSIVE, other.thread()), events.poll(20, TimeUnit.SECONDS));
        held.close();
        held.close();
        seen.close();
        assertEquals(List.of(new Event(List.of(key), LockObserver.Mode.EXCLUSIVE, Thread.currentThread())), List.copyOf(events));
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
