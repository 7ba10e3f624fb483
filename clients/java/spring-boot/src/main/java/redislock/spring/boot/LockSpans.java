package redislock.spring.boot;

import io.micrometer.tracing.Span;
import io.micrometer.tracing.Tracer;
import java.time.Duration;
import java.util.List;
import redislock.LockObserver;

/** A span in the caller's trace for each acquire that has to wait, by Micrometer's tracer. */
public final class LockSpans implements LockObserver {
    private final Tracer tracer;
    private final LockTags lockTags;
    private final ThreadLocal<Span> waiting = new ThreadLocal<>(); // a thread waits for only one lock at a time

    /** If `name` is null, the spans don't distinguish locks. */
    public LockSpans(Tracer tracer, LockName name) {
        this.tracer = tracer;
        lockTags = new LockTags(name);
    }

    @Override
    public void waiting(List<String> keys, Mode mode) {
        var span = tracer.spanBuilder().name("redislock.wait").kind(Span.Kind.CLIENT);
        lockTags.of(keys, mode).forEach(tag -> span.tag(tag.getKey(), tag.getValue()));
        waiting.set(span.start());
    }

    @Override
    public void acquired(List<String> keys, Mode mode, Duration waited, long fence) {
        end("acquired", null);
    }

    @Override
    public void refused(List<String> keys, Mode mode, Duration waited, Outcome outcome, Exception reason) {
        boolean expected = outcome == Outcome.TIMEOUT || outcome == Outcome.BUSY || outcome == Outcome.CANCELLED;
        end(LockTags.word(outcome), expected ? null : reason);
    }

    private void end(String outcome, Exception error) {
        Span span = waiting.get();
        if (span == null) return;
        waiting.remove();
        span.tag("redislock.outcome", outcome);
        if (error != null) span.error(error);
        span.end();
    }
}
