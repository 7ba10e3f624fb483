package redislock;

import io.lettuce.core.RedisCommandTimeoutException;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.function.BooleanSupplier;

/** One wait: its thread asks for a lock until the lock is held, or the wait is over. */
final class Wait {
    private static final long ASK_AGAIN = TimeUnit.SECONDS.toNanos(4); // less than lock.claim: a lost message causes only a delay
    private static final long FOREVER = Core.LONG;

    private final Core core;
    private final Held held;
    private final Request request;
    private final boolean interruptible;
    private final boolean once;
    private final boolean limited;
    private final long end;
    private boolean interrupted;
    private Request.Words words; // the last acquire that was sent
    private CompletableFuture<Object> coming; // its answer, until the thread has read it
    private volatile boolean late; // the answer did not come in time
    private volatile long since; // when the acquire was sent, or when its answer came
    private long number; // the number that a start message must repeat, or 0

    Wait(Core core, Held held, boolean interruptible) {
        this.core = core;
        this.held = held;
        this.interruptible = interruptible;
        request = held.request;
        once = request.once();
        Duration most = once ? core.connections.patience() : request.wait;
        limited = most != null && most.compareTo(Duration.ofNanos(Core.LONG)) < 0;
        end = limited ? System.nanoTime() + most.toNanos() : Core.never();
        held.waiter = Thread.currentThread();
    }

    void run() throws InterruptedException {
        try {
            ask();
        } catch (InterruptedException | RuntimeException why) { // whatever ended the wait, give up its place or grant
            core.leaving.end(held, words != null && words.drop() ? null : coming);
            throw why;
        } finally {
            if (interrupted) Thread.currentThread().interrupt();
        }
    }

    private void ask() throws InterruptedException {
        Throwable trouble = null;
        for (int tries = 1;; tries++) {
            while (othersLeave()) {
                if (over()) throw notAcquired(trouble);
            }
            core.locked(() -> core.departs(held));
            // The mutex must be free, because callbacks take it.
            words = request.acquire(request.lease(), once ? null : this::block, number);
            int breaks = core.connections.breaks();
            var answer = core.connections.send(words, request.session);
            coming = answer;
            since = System.nanoTime();
            answer.whenComplete((reply, error) -> answered(answer));
            core.mutex.lock();
            try {
                if (watchesPlace()) pause(ASK_AGAIN, () -> held.woken || answer.isDone());
                if (watchesPlace() && isPlace(answer)) tellWaiting();
                do {
                    late = !pause(since + ASK_AGAIN - System.nanoTime(), () -> hasNews(answer));
                    if (late && !pause(FOREVER, answer::isDone)) throw over(trouble == null ? unanswered() : trouble);
                } while (late && !over() && since + ASK_AGAIN - System.nanoTime() > 0);
                Object reply = null;
                trouble = null;
                try {
                    reply = answer.join();
                } catch (RuntimeException failed) {
                    trouble = failed;
                }
                held.unsure |= breaks != core.connections.breaks();
                held.note(reply, trouble);
                if (reply instanceof List<?> grant) {
                    core.hold(held, grant, words.sent);
                    return;
                }
                coming = null;
                if (number > 0 && trouble != null && LockException.isUnknownOption(trouble)) { // perhaps the server does not know START
                    core.starts = false;
                    continue;
                }
                boolean again = !once || tries == 1 && !LockException.isSilence(trouble);
                if (trouble != null && !(LockException.passes(trouble) && again)) {
                    throw LockException.explained(trouble, request);
                }
                if (trouble == null && reply == null) throw notAcquired(null);
                if (trouble == null && core.start(held, words.sent)) return;
                if (trouble != null) pause(Core.TRY_AGAIN, () -> held.woken);
                if (over()) throw over(trouble);
            } finally {
                core.mutex.unlock();
            }
        }
    }

    /** Whether another Held of this owner is giving up the grant that this wait would enter: its release could end this one's grant, too. */
    private boolean othersLeave() throws InterruptedException {
        core.mutex.lock();
        try {
            held.woken = false; // cleared before sending: a message may come before the reply
            held.start = null;
            held.number++;
            number = core.starts && request.starts ? held.number : 0;
            Held other = core.partner(held, Held.State.LEAVING);
            if (other == null) return false;
            pause(ASK_AGAIN, () -> held.woken);
            return true;
        } finally {
            core.mutex.unlock();
        }
    }

    /** Whether the thread has to wake. If the answer is only that there is a place, the thread sleeps on until it is granted. */
    private boolean hasNews(CompletableFuture<Object> answer) {
        return answer.isDone() && (held.woken || !isPlace(answer));
    }

    private static boolean isPlace(CompletableFuture<Object> answer) {
        return answer.isDone() && !answer.isCompletedExceptionally() && Reply.QUEUED.equals(answer.join());
    }

    private void answered(CompletableFuture<Object> answer) {
        since = System.nanoTime();
        if (late || watchesPlace() || hasNews(answer)) LockSupport.unpark(held.waiter);
    }

    private boolean watchesPlace() {
        return held.watch != null && held.watch.wantsPlace();
    }

    /** Tells the observer. The caller has the mutex, which is released during the call. */
    private void tellWaiting() {
        core.mutex.unlock();
        try {
            held.watch.waiting();
        } finally {
            core.mutex.lock();
        }
    }

    private long block() {
        return limited ? Math.max(1, TimeUnit.NANOSECONDS.toMillis(end - System.nanoTime() + 999_999)) : 0;
    }

    private boolean over() {
        return limited && end - System.nanoTime() <= 0;
    }

    private static Throwable unanswered() {
        return new RedisCommandTimeoutException("no answer from the server");
    }

    /** Without an answer to an acquire that asks once, nobody knows whether others hold the lock: so the error is the trouble. */
    private RuntimeException over(Throwable trouble) {
        return once && trouble != null ? LockException.explained(trouble, request) : notAcquired(trouble);
    }

    private LockException notAcquired(Throwable trouble) {
        return new LockException.NotAcquired(request, trouble);
    }

    /** With the mutex. Waits until the condition is true, for at most this long, and at most until the caller's wait is over. */
    private boolean pause(long most, BooleanSupplier so) throws InterruptedException {
        long stop = System.nanoTime() + most;
        if (limited && end - stop < 0) stop = end;
        while (!so.getAsBoolean()) {
            if (core.closed) throw new LockException.Closed();
            long left = stop - System.nanoTime();
            if (left <= 0) return false;
            core.mutex.unlock();
            try {
                LockSupport.parkNanos(this, left);
            } finally {
                core.mutex.lock();
            }
            if (Thread.interrupted()) {
                if (interruptible) throw new InterruptedException();
                interrupted = true;
            }
        }
        return true;
    }
}
