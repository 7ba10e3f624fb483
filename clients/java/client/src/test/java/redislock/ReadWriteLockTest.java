package redislock;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Lock;
import org.junit.jupiter.api.Test;

/** Tests what java.util.concurrent.locks.ReadWriteLock promises. */
class ReadWriteLockTest extends Support {
    private Lock read() {
        return locks.readWriteLock(key).readLock();
    }

    private Lock write() {
        return locks.readWriteLock(key).writeLock();
    }

    @Test
    void readersShareItAndAWriterWaits() throws Exception {
        read().lock();
        assertTrue(inAnotherThread(() -> {
            read().lock();
            assertFalse(inAnotherThread(() -> write().tryLock()));
            read().unlock();
            return true;
        }));
        var writer = Other.does(() -> write().tryLock(20, TimeUnit.SECONDS));
        untilWaiters(1);
        read().unlock();
        assertTrue(writer.result());
        assertFalse(read().tryLock());
    }

    @Test
    void aWriterIsAlone() throws Exception {
        write().lock();
        assertFalse(inAnotherThread(() -> read().tryLock()));
        assertFalse(inAnotherThread(() -> write().tryLock()));
        assertFalse(inAnotherThread(() -> locks.lock(key).tryLock()));
        write().unlock();
        assertTrue(inAnotherThread(() -> read().tryLock()));
    }

    @Test
    void bothAreEnteredAgain() throws Exception {
        read().lock();
        read().lock();
        read().unlock();
        assertFalse(inAnotherThread(() -> write().tryLock()));
        read().unlock();
        write().lock();
        write().lock();
        write().unlock();
        assertFalse(inAnotherThread(() -> read().tryLock()));
        write().unlock();
        untilFree();
    }

    @Test
    void aWriterReadsAndIsAloneUntilItHasReadAsWell() throws Exception {
        write().lock();
        read().lock();
        write().unlock();
        assertThrows(IllegalMonitorStateException.class, write()::unlock);
        assertFalse(inAnotherThread(() -> write().tryLock()));
        assertTrue(write().tryLock());
        write().unlock();
        read().unlock();
        untilFree();
    }

    @Test
    void aReaderThatWantsToWriteDoesNotWaitForItself() throws Exception {
        read().lock();
        assertThrows(IllegalMonitorStateException.class, write()::lock);
        assertThrows(IllegalMonitorStateException.class, write()::lockInterruptibly);
        assertThrows(IllegalMonitorStateException.class, () -> write().tryLock(1, TimeUnit.DAYS));
        assertFalse(write().tryLock());
        assertThrows(IllegalMonitorStateException.class, write()::unlock);
        read().unlock();
        assertTrue(write().tryLock());
        write().unlock();
    }

    @Test
    void aReaderIsNotAWriterForUnlock() {
        write().lock();
        assertThrows(IllegalMonitorStateException.class, read()::unlock);
        assertEquals("exclusive", info("mode"));
        write().unlock();
    }
}
