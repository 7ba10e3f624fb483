package redislock;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.ArrayList;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Lock;
import org.junit.jupiter.api.Test;

/** Tests what java.util.concurrent.locks.Lock promises. */
class ThreadLockTest extends Support {
    private Lock lock() {
        return locks.lock(key);
    }

    @Test
    void oneThreadHasItAndOthersWait() throws Exception {
        Lock lock = lock();
        lock.lock();
        var other = Other.does(() -> {
            lock.lock();
            lock.unlock();
            return true;
        });
        untilWaiters(1);
        assertFalse(other.task().isDone());
        lock.unlock();
        assertTrue(other.result());
        untilFree();
    }

    @Test
    void theThreadThatHasItEntersAgainThroughAnyLockOfThatKey() throws Exception {
        lock().lock();
        assertTrue(lock().tryLock());
        assertTrue(lock().tryLock(1, TimeUnit.MILLISECONDS));
        lock().lockInterruptibly();
        for (int holds = 4; holds > 0; holds--) {
            assertFalse(inAnotherThread(() -> lock().tryLock()));
            lock().unlock();
        }
        assertTrue(inAnotherThread(() -> lock().tryLock()));
        assertEquals(lock(), lock());
    }

    @Test
    void onlyTheThreadThatHasItUnlocks() throws Exception {
        assertThrows(IllegalMonitorStateException.class, lock()::unlock);
        lock().lock();
        assertInstanceOf(IllegalMonitorStateException.class, Other.does(() -> {
            lock().unlock();
            return true;
        }).failure());
        lock().unlock();
        assertThrows(IllegalMonitorStateException.class, lock()::unlock);
    }

    @Test
    void tryLockAsksOnceEvenIfInterrupted() throws Exception {
        othersHold();
        assertFalse(lock().tryLock());
        othersRelease();
        Thread.currentThread().interrupt();
        assertTrue(lock().tryLock());
        assertTrue(Thread.interrupted());
        lock().unlock();
    }

    @Test
    void tryLockWithTimeWaitsSoLongAndLeaves() throws Exception {
        othersHold();
        long begin = System.nanoTime();
        assertFalse(lock().tryLock(300, TimeUnit.MILLISECONDS));
        assertTrue(System.nanoTime() - begin >= TimeUnit.MILLISECONDS.toNanos(300));
        assertFalse(lock().tryLock(0, TimeUnit.SECONDS));
        assertFalse(lock().tryLock(-1, TimeUnit.SECONDS));
        untilWaiters(0);
        var other = Other.does(() -> lock().tryLock(Long.MAX_VALUE, TimeUnit.DAYS));
        untilWaiters(1);
        othersRelease();
        assertTrue(other.result());
    }

    @Test
    void anInterruptEndsTheWaitsThatMayBeInterrupted() throws Exception {
        othersHold();
        var waits = new ArrayList<Other<?>>();
        waits.add(Other.does(() -> {
            lock().lockInterruptibly();
            return true;
        }));
        waits.add(Other.does(() -> lock().tryLock(1, TimeUnit.DAYS)));
        untilWaiters(2);
        for (var each : waits) {
            each.thread().interrupt();
            assertInstanceOf(InterruptedException.class, each.failure());
        }
        untilWaiters(0);
    }

    @Test
    void aThreadThatIsInterruptedAlreadyDoesNotBegin() {
        doesNotBegin(lock());
        lock().lock();
        doesNotBegin(lock());
        lock().unlock();
        assertThrows(IllegalMonitorStateException.class, lock()::unlock);
    }

    private static void doesNotBegin(Lock lock) {
        Thread.currentThread().interrupt();
        assertThrows(InterruptedException.class, lock::lockInterruptibly);
        assertFalse(Thread.interrupted());
        Thread.currentThread().interrupt();
        assertThrows(InterruptedException.class, () -> lock.tryLock(1, TimeUnit.SECONDS));
        assertFalse(Thread.interrupted());
    }

    @Test
    void lockWaitsOnAndTheInterruptIsStillThereAfterwards() throws Exception {
        othersHold();
        var other = Other.does(() -> {
            lock().lock();
            boolean interrupted = Thread.interrupted();
            lock().unlock();
            return interrupted;
        });
        untilWaiters(1);
        other.thread().interrupt();
        other.thread().join(300);
        untilWaiters(1);
        othersRelease();
        assertTrue(other.result());
    }

    @Test
    void thereAreNoConditions() {
        assertThrows(UnsupportedOperationException.class, lock()::newCondition);
    }

    @Test
    void aThreadThatLostItIsToldWhereverItComesBack() throws Exception {
        lock().lock();
        lock().lock();
        send("LOCK.BREAK", key);
        var held = locks.heldByThread(key).orElseThrow();
        until(() -> !held.isHeld());
        assertThrows(LockException.Lost.class, lock()::lock);
        lock().unlock();
        assertThrows(LockException.Lost.class, lock()::unlock);
        assertTrue(lock().tryLock());
        lock().unlock();
    }

    @Test
    void aThreadThatDoesNotComeBackIsToldByItsUnlock() throws Exception {
        lock().lock();
        send("LOCK.BREAK", key);
        assertThrows(LockException.Lost.class, lock()::unlock);
    }

    @Test
    void whatWasReleasedInOtherWaysIsNotEnteredAgain() {
        lock().lock();
        locks.heldByThread(key).orElseThrow().close();
        assertThrows(IllegalStateException.class, lock()::lock);
        assertThrows(IllegalStateException.class, lock()::tryLock);
        lock().unlock();
        lock().lock();
        locks.close();
        assertThrows(LockException.Closed.class, lock()::lock);
        assertThrows(LockException.Closed.class, lock()::tryLock);
        lock().unlock();
    }

    @Test
    void aLockWhoseThreadHasEndedEndsWithItsLease() throws Exception {
        inAnotherThread(() -> {
            locks.lock(key, o -> o.lease(Duration.ofSeconds(1))).lock();
            return true;
        });
        assertTrue(lock().tryLock(20, TimeUnit.SECONDS));
        lock().unlock();
        until(locks.holds::isEmpty);
    }

    @Test
    void itsOptionsAreThoseOfTheLocksButForTheWait() {
        Lock lock = locks.lock(key, o -> o.lease(Duration.ofMinutes(5)).wait(Duration.ofDays(1)));
        lock.lock();
        assertTrue((Long) info("lease-ms") > 200_000);
        lock.unlock();
    }

    @Test
    void itsFenceIsAtHandInItsThread() throws Exception {
        assertTrue(locks.heldByThread(key).isEmpty());
        lock().lock();
        assertEquals(info("fence"), locks.heldByThread(key).orElseThrow().fence());
        assertTrue(inAnotherThread(() -> locks.heldByThread(key)).isEmpty());
        lock().unlock();
        assertTrue(locks.heldByThread(key).isEmpty());
    }

    @Test
    void manyThreadsOneAtATime() throws Exception {
        int[] sum = {0};
        var threads = new ArrayList<Thread>();
        for (int number = 0; number < 300; number++) {
            var thread = new Thread(() -> {
                lock().lock();
                lock().lock();
                int before = sum[0];
                Thread.yield();
                sum[0] = before + 1;
                lock().unlock();
                lock().unlock();
            });
            thread.start();
            threads.add(thread);
        }
        for (Thread thread : threads) thread.join();
        assertEquals(300, sum[0]);
        assertTrue(locks.holds.isEmpty());
    }
}
