package redislock;

import java.time.Duration;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.Lock;
import java.util.concurrent.locks.ReadWriteLock;
import java.util.function.Consumer;

/** A lock that belongs to the thread that locks it. All locks of one key are the same lock, even if they were made by several calls. */
record ThreadLock(Locks locks, String key, boolean shared, Consumer<Options> options) implements Lock {
    record Seat(String key, Thread thread) {}

    /** The lock that a thread holds. Only this thread reads and changes it. */
    static final class Hold {
        final Held held;
        final boolean shared;
        int reads;
        int writes;

        Hold(Held held, boolean shared) {
            this.held = held;
            this.shared = shared;
        }
    }

    record ReadWrite(Locks locks, String key, Consumer<Options> options) implements ReadWriteLock {
        @Override
        public Lock readLock() {
            return new ThreadLock(locks, key, true, options);
        }

        @Override
        public Lock writeLock() {
            return new ThreadLock(locks, key, false, options);
        }
    }

    @Override
    public void lock() {
        if (!enterAgain()) take(locks.acquireUninterruptibly(key, with(null)));
    }

    @Override
    public void lockInterruptibly() throws InterruptedException {
        if (Thread.interrupted()) throw new InterruptedException();
        if (!enterAgain()) take(locks.acquire(key, with(null)));
    }

    @Override
    public boolean tryLock() {
        Hold hold = locks.holds.get(seat());
        if (hold != null && hold.shared && !shared) return false;
        if (enterAgain()) return true;
        var held = locks.tryAcquire(key, with(Duration.ZERO));
        held.ifPresent(this::take);
        return held.isPresent();
    }

    @Override
    public boolean tryLock(long time, TimeUnit unit) throws InterruptedException {
        if (Thread.interrupted()) throw new InterruptedException();
        if (enterAgain()) return true;
        try {
            take(locks.acquire(key, with(Duration.ofNanos(Math.max(0, unit.toNanos(time))))));
            return true;
        } catch (LockException.NotAcquired others) {
            return false;
        }
    }

    @Override
    public void unlock() {
        Hold hold = locks.holds.get(seat());
        if (hold == null || (shared ? hold.reads : hold.writes) == 0) {
            throw new IllegalMonitorStateException("this thread does not hold " + key);
        }
        if (shared) hold.reads--;
        else hold.writes--;
        if (hold.reads + hold.writes > 0) return;
        locks.holds.remove(seat());
        hold.held.close();
    }

    @Override
    public Condition newCondition() {
        throw new UnsupportedOperationException("there are no conditions among processes");
    }

    private Seat seat() {
        return new Seat(key, Thread.currentThread());
    }

    /** Enters the lock again if the thread holds it, without asking the server. Throws if it was lost. */
    private boolean enterAgain() {
        Hold hold = locks.holds.get(seat());
        if (hold == null) return false;
        if (hold.shared && !shared) {
            throw new IllegalMonitorStateException("a reader of " + key + " that wants to write would wait for itself: unlock it first");
        }
        hold.held.refuseUnlessHeld();
        count(hold);
        return true;
    }

    private void take(Held held) {
        var hold = new Hold(held, shared);
        count(hold);
        Seat seat = seat();
        locks.holds.put(seat, hold);
        held.core.locked(() -> held.only = seat.thread);
        held.over.whenComplete((done, error) -> {
            if (!seat.thread.isAlive()) locks.holds.remove(seat);
        });
    }

    private void count(Hold hold) {
        if (shared) hold.reads++;
        else hold.writes++;
    }

    private Consumer<Options> with(Duration wait) {
        return options.andThen(all -> {
            all.wait = wait;
            if (shared) all.shared();
        });
    }
}
