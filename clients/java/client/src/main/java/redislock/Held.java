package redislock;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.OptionalInt;
import java.util.concurrent.CompletableFuture;

/** A lock that is held: renewed while it is, and told of its loss. Any thread may use and close it. */
public final class Held implements AutoCloseable {
    enum State { WAITING, HELD, LOST, LEAVING, OVER }

    /** What a message says of a grant: the fence, the milliseconds that it lasts if nobody claims it, and the slot, or 0. */
    record Start(long fence, long ms, long slot) {}

    static final long NO_LEASE = Duration.ofSeconds(30).toNanos(); // what to assume of a lease that is not known

    final Core core;
    final Request request;
    final Watch watch; // null: nobody observes it
    final CompletableFuture<Void> over = new CompletableFuture<>(); // it has been given up; fails with what the holder is to hear
    final Loss lost = new Loss();

    // Not a condition of the mutex, for which all that are woken would queue:
    volatile Thread waiter; // sleeps until there is news
    volatile boolean woken; // it is to ask again, or can start

    // With the mutex of the core:
    State state = State.WAITING;
    List<Long> fences = List.of();
    List<Long> slots = List.of();
    List<Long> left = List.of(); // the grant of one that released it while this one waited
    final List<Long> heardLost = new ArrayList<>();
    long given; // by the last answer
    boolean aged; // it came out shorter than asked for, or than the one before: the maximum age ends it
    long until = Core.never(); // when the lock may be gone
    long due = Core.never(); // when there is something to do for it
    long atMost = Core.never(); // when it ends whatever the answer that is on its way says: one that shares it has set a shorter lease
    long sets; // the lease that an extension on its way sets
    long lease = NO_LEASE;
    long number; // of the last question
    Start start; // the message that answers it
    boolean unclaimed; // held since the message, and only for as long as that said
    boolean doubted;
    boolean renewing;
    Thread only; // the one that can release it, if no other can
    boolean used; // others had the grant, or will have it, when this one left
    boolean place; // it may have a place
    boolean unsure; // an answer was lost, so it may be held
    String why; // it was lost
    CompletableFuture<Void> turn = CompletableFuture.completedFuture(null); // of two extensions at once, nobody knows which came last

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

    /** Rises with each grant: a resource that checks it refuses a holder that was too slow. Of several locks, it is the greatest. */
    public long fence() {
        return Collections.max(fences());
    }

    /** One for each key. Locks that were acquired together have the same one, unless they were held before. */
    public List<Long> fences() {
        return core.locked(() -> fences);
    }

    /** Which of the holders of a {@link Options#limit} this one is, from 1, if the server tells. */
    public OptionalInt slot() {
        List<Long> all = core.locked(() -> slots);
        return all.isEmpty() ? OptionalInt.empty() : OptionalInt.of(all.get(0).intValue());
    }

    /** How much is left of the lease, unless it is renewed; zero when the lock is not held any more. */
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

    /** Sets the lease anew, counted from now, with its length of before. Returns what the server gave. */
    public Duration extend() {
        return core.renewal.extend(this, 0);
    }

    /** Sets the lease, counted from now, and that of renewals. Returns what the server gave. */
    public Duration extend(Duration lease) {
        return core.renewal.extend(this, Options.ms("a lease", lease));
    }

    /** The lock ends by itself after that time, and is not watched any more: others have it not before, even if this process dies. */
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

    /** Gives the lock back. Throws {@link LockException.Lost} if it was lost before. It does not end by an interrupt. */
    @Override
    public void close() {
        core.leaving.release(this);
    }

    /** By the one that has given it up, when that is done. */
    void left() {
        if (watch != null) over.whenComplete((done, error) -> watch.left(error));
    }

    /** Keeps in mind what the server may have of this wait. */
    void note(Object reply, Throwable error) {
        unsure = error != null && (unsure || LockException.passes(error));
        if (reply instanceof List<?> grant) {
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

    /** Reads one number or several. */
    static List<Long> numbers(Object reply) {
        return reply instanceof List<?> all ? all.stream().map(Long.class::cast).toList() : List.of((Long) reply);
    }

    LockException.Lost lostException() {
        return new LockException.Lost(request, why);
    }
}
