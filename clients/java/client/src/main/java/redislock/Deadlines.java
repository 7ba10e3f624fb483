package redislock;

import io.lettuce.core.RedisCommandTimeoutException;
import java.util.Queue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;

/**
 * Fails answers that don't come in time. A timer for each answer ({@link CompletableFuture#orTimeout}) costs a busy program a tenth of its
 * speed. So one timer checks all of them, when the first one is due.
 */
final class Deadlines {
    private record Awaited(CompletableFuture<?> answer, long due) {}

    private final Queue<Awaited> all = new ConcurrentLinkedQueue<>(); // roughly in the order of their deadlines
    private final AtomicBoolean looks = new AtomicBoolean(); // a check is scheduled

    /** Fails the answer with a RedisCommandTimeoutException after so many milliseconds. */
    void add(CompletableFuture<?> answer, long ms) {
        for (Awaited first = all.peek(); first != null && first.answer.isDone(); first = all.peek()) all.remove(first);
        all.add(new Awaited(answer, System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(ms)));
        if (looks.compareAndSet(false, true)) lookIn(TimeUnit.MILLISECONDS.toNanos(ms));
    }

    private void lookIn(long pause) {
        CompletableFuture.delayedExecutor(pause, TimeUnit.NANOSECONDS).execute(this::look);
    }

    private void look() {
        long now = System.nanoTime();
        long next = Long.MAX_VALUE;
        for (Awaited each : all) {
            if (each.answer.isDone()) {
                all.remove(each);
            } else if (each.due - now <= 0) {
                all.remove(each);
                each.answer.completeExceptionally(new RedisCommandTimeoutException("no answer from the server"));
            } else {
                next = Math.min(next, each.due - now);
            }
        }
        if (next < Long.MAX_VALUE) {
            lookIn(next);
        } else {
            looks.set(false);
            // An answer that was added during this check relied on a check that was scheduled, so schedule one.
            if (!all.isEmpty() && looks.compareAndSet(false, true)) lookIn(0);
        }
    }
}
