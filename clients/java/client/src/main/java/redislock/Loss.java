package redislock;

import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;

/** Completes when a lock is lost. All callers share it, since a copy for each would stay in memory; so they can't complete it. */
final class Loss extends CompletableFuture<LockException.Lost> {
    @Override
    public <U> CompletableFuture<U> newIncompleteFuture() {
        return new CompletableFuture<>();
    }

    @Override
    public boolean complete(LockException.Lost value) {
        return false;
    }

    @Override
    public boolean completeExceptionally(Throwable error) {
        return false;
    }

    @Override
    public boolean cancel(boolean interrupt) {
        return false;
    }

    @Override
    public CompletableFuture<LockException.Lost> orTimeout(long time, TimeUnit unit) {
        return copy().orTimeout(time, unit);
    }

    @Override
    public CompletableFuture<LockException.Lost> completeOnTimeout(LockException.Lost value, long time, TimeUnit unit) {
        return copy().completeOnTimeout(value, time, unit);
    }
}
