package redislock;

import java.time.Duration;
import java.util.concurrent.CompletableFuture;

/** Tells an observer of one acquire. Never called with the mutex of the core. */
final class Watch {
    private static final System.Logger LOG = System.getLogger("redislock");

    private final LockObserver observer;
    private final Request request;
    private final long began = System.nanoTime();
    private final CompletableFuture<Void> held = new CompletableFuture<>(); // told that it is held; its end is told later
    private long since;
    private boolean waits;

    Watch(LockObserver observer, Request request) {
        this.observer = observer;
        this.request = request;
    }

    /** Whether the observer has not been told yet that the acquire waits. */
    boolean wantsPlace() {
        return !waits;
    }

    void waiting() {
        waits = true;
        tell(() -> observer.waiting(request.keys, request.shape));
    }

    void acquired(Held got) {
        since = System.nanoTime();
        tell(() -> observer.acquired(request.keys, request.shape, Duration.ofNanos(since - began), got.fence()));
        held.complete(null);
        got.lost.thenAccept(this::lost);
    }

    void refused(Exception why) {
        tell(() -> observer.refused(request.keys, request.shape, Duration.ofNanos(System.nanoTime() - began), outcome(why), why));
    }

    private LockObserver.Outcome outcome(Exception why) {
        if (why instanceof LockException.NotAcquired) {
            return request.once() ? LockObserver.Outcome.BUSY : LockObserver.Outcome.TIMEOUT;
        }
        if (why instanceof InterruptedException) return LockObserver.Outcome.CANCELLED;
        if (why instanceof LockException.Deadlock) return LockObserver.Outcome.DEADLOCK;
        return why instanceof LockException.Closed ? LockObserver.Outcome.CLOSED : LockObserver.Outcome.ERROR;
    }

    /** Called when the release is over, with the exception that it throws, or null. */
    void left(Throwable error) {
        held.thenRun(() -> {
            if (error instanceof LockException.Lost found) lost(found);
            else if (error instanceof LockException.Closed) lost(new LockException.Lost(request, "the locks were closed"));
            else tell(() -> observer.released(request.keys, request.shape, age()));
        });
    }

    private void lost(LockException.Lost why) {
        tell(() -> observer.lost(request.keys, request.shape, age(), why));
    }

    private Duration age() {
        return Duration.ofNanos(System.nanoTime() - since);
    }

    private static void tell(Runnable event) {
        try {
            event.run();
        } catch (RuntimeException | LinkageError failed) {
            LOG.log(System.Logger.Level.WARNING, "an observer of locks has failed", failed);
        }
    }
}
