package redislock;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.OptionalInt;
import java.util.concurrent.CompletableFuture;

/** A lock that is held. The package renews it, and tells the holder if it is lost. Any thread may use and close it. */
public final class Held implements AutoCloseable {
    enum State { WAITING, HELD, LOST, LEAVING, OVER }

    /** The grant in a start message: the fence, the milliseconds that it lasts if nobody claims it, and the slot, or 0. */
    record Start(long fence, long ms, long slot) {}

    static final long NO_LEASE = Duration.ofSeconds(30).toNanos(); // assumed for a lease whose length is unknown

    final Core core;
    final Request request;
    final Watch watch; // null without an observer
    final CompletableFuture<Void> over = new CompletableFuture<>(); // given up; fails with the exception for close()
    final Loss lost = new Loss();

    // These are no condition of the mutex: all threads that a condition wakes would queue for the mutex.
    volatile Thread waiter; // the thread that sleeps until there is news
    volatile boolean woken; // there is news: ask again, or begin

    // The mutex of the core guards these:
    State state = State.WAITING;
    List<Long> fences = List.of();
    List<Long> slots = List.of();
    List<Long> left = List.of(); // fences of a grant that another Held of this owner left to this one, which waits
    final List<Long> heardLost = new ArrayList<>();
    long given; // the lease in the last answer
    boolean aged; // the last answer gave less than was asked for or than the one before: the maximum age cuts it
    long until = Core.never(); // when the lock may have ended
    long due = Core.never(); // when the timer has to act on this lock
    long atMost = Core.never(); // the latest end of the lease, whatever a pending answer says: another Held set a shorter lease
    long sets; // the lease that an extension sets whose answer is still to come; else 0
    long lease = NO_LEASE;
    long number; // the number that START gave to the last acquire
    Start start; // the start message that answers the last acquire
    boolean unclaimed; // held by a start message, for as long as this said: the claim is still to come
    boolean doubted;
    boolean renewing;
    Thread only; // the thread that alone may release it, if there is one
    boolean used; // when this one left, others of its owner had the grant or waited for it
    boolean place; // the server may have a place for it
    boolean unsure; // an answer was lost, so the server may have granted it
    String why; // why it was lost
    CompletableFuture<Void> turn = CompletableFuture.completedFuture(null); // sends one extension at a time, in a known order

    Held(Core core, Request request, Watch watch) {
        this.core = core;
        this.request = request;
        this.watch = watch;
    }

    /** The locks, in the order in which they were named. */
    public List<String> keys() {
        return request.keys;
    }

    /** The name under which the server knows the holder. */
    public String owner() {
        return request.owner;
    }

    /** Greater for each later grant: a resource that checks the fence can refuse a late holder. With several locks, the greatest. */
    public long fence() {
        return Collections.max(fences());
    }

    /** One fence for each key. Locks that were acquired together have the same fence, unless the owner held one of them before. */
    public List<Long> fences() {
        return core.locked(() -> fences);
    }

    /** Which of the holders of a {@link Options#limit} this one is, from 1, if the server tells. */
    public OptionalInt slot() {
        List<Long> all = core.locked(() -> slots);
        return all.isEmpty() ? OptionalInt.empty() : OptionalInt.of(all.get(0).intValue());
    }

    /** How much of the lease is left; zero when the lock is not held any more. */
    public Duration lease() {
        return core.locked(() -> {
            core.checkLease(this);
            return state == State.HELD ? Duration.ofNanos(Math.max(0, until - System.nanoTime())) : Duration.ZERO;
        });
    }

    /** Completes as soon as the lock is lost, on a thread of the common pool, and never if it is released. */
    public CompletableFuture<LockException.Lost> lost() {
        return lost;
    }

    /** Whether the lock is held: neither lost nor released. */
    public boolean isHeld() {
        return core.locked(() -> {
            core.checkLease(this);
            return state == State.HELD;
        });
    }

    /** Throws {@link LockException.Lost} if the lock was lost. */
    public void check() {
        core.locked(() -> {
            core.checkLease(this);
            if (why != null) throw lostException();
            return null;
        });
    }

    /** Extends the lock by a lease of the same length as before, counted from now. Returns the lease that the server gave. */
    public Duration extend() {
        return core.renewal.extend(this, 0);
    }

    /** Sets the lease, counted from now, also for later renewals. Returns the lease that the server gave. */
    public Duration extend(Duration lease) {
        return core.renewal.extend(this, Options.ms("a lease", lease));
    }

    /** Lets the lock end by itself after this time, without watching it any more: nobody gets it earlier, even if this process dies. */
    public void releaseIn(Duration rest) {
        extend(rest);
        boolean first = core.locked(() -> {
            if (state != State.HELD) return false;
            state = State.OVER;
            over.complete(null);
            core.forget(this);
            return true;
        });
        if (first) left();
    }

    /** Gives the lock back. Throws {@link LockException.Lost} if it was lost before. An interrupt does not stop this. */
    @Override
    public void close() {
        core.leaving.release(this);
    }

    /** Tells the observer of the end, when the lock has been given up. Called by whoever gives it up. */
    void left() {
        if (watch != null) over.whenComplete((done, error) -> watch.left(error));
    }

    /** Remembers whether the server may have a place or a grant for this wait. */
    void note(Object reply, Throwable error) {
        // Without one of several locks, it may hold the others.
        unsure = error == null ? unsure && request.keys.size() > 1 : unsure || LockException.passes(error);
        if (reply instanceof List<?> grant) {
            unsure = false;
            fences = numbers(grant.get(1));
            long ms = (Long) grant.get(3);
            if (ms > 0) lease = Duration.ofMillis(ms).toNanos();
        } else if (reply != null || error != null && LockException.says(error, "NOREPLICAS")) {
            place = true;
        }
    }

    void refuseUnlessHeld() {
        core.locked(() -> {
            check();
            if (state == State.HELD) return null;
            throw core.closed ? new LockException.Closed() : new IllegalStateException(request + " was released");
        });
    }

    /** Reads a reply that is one number or a list of numbers. */
    static List<Long> numbers(Object reply) {
        return reply instanceof List<?> all ? all.stream().map(Long.class::cast).toList() : List.of((Long) reply);
    }

    LockException.Lost lostException() {
        return new LockException.Lost(request, why);
    }
}
