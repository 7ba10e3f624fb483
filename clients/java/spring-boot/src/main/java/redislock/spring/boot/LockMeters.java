package redislock.spring.boot;

import io.micrometer.core.instrument.Counter;
import io.micrometer.core.instrument.Gauge;
import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.Tag;
import io.micrometer.core.instrument.Tags;
import io.micrometer.core.instrument.Timer;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.LongStream;
import redislock.LockException;
import redislock.LockObserver;

/** Micrometer's meters of locks. They have the same names as the OpenTelemetry metrics of the packages for other languages. */
public final class LockMeters implements LockObserver {
    private static final Duration[] BUCKETS =
        LongStream.of(1, 5, 10, 50, 100, 500, 1000, 5000, 10_000, 30_000, 60_000, 300_000).mapToObj(Duration::ofMillis).toArray(Duration[]::new);

    private record Counted(String meter, Tags tags) {}

    private final MeterRegistry registry;
    private final LockTags lockTags;
    private final Map<Counted, AtomicInteger> counts = new ConcurrentHashMap<>();
    private final ThreadLocal<Tags> waiting = new ThreadLocal<>(); // a thread waits for only one lock at a time

    /** If `name` is null, the meters don't distinguish locks. */
    public LockMeters(MeterRegistry registry, LockName name) {
        this.registry = registry;
        lockTags = new LockTags(name);
    }

    @Override
    public void waiting(List<String> keys, Mode mode) {
        Tags tags = tags(keys, mode);
        count("redislock.waiting", tags, 1);
        waiting.set(tags);
    }

    @Override
    public void acquired(List<String> keys, Mode mode, Duration waited, long fence) {
        Tags tags = tags(keys, mode);
        waited(tags, "acquired", waited);
        count("redislock.held", tags, 1);
    }

    @Override
    public void refused(List<String> keys, Mode mode, Duration waited, Outcome outcome, Exception reason) {
        waited(tags(keys, mode), LockTags.word(outcome), waited);
    }

    @Override
    public void released(List<String> keys, Mode mode, Duration held) {
        held(tags(keys, mode), "released", held);
    }

    @Override
    public void lost(List<String> keys, Mode mode, Duration held, LockException.Lost reason) {
        Tags tags = tags(keys, mode);
        held(tags, "lost", held);
        Counter.builder("redislock.lost").description("locks that ended without a release").tags(tags.and("redislock.reason", reason.reason()))
            .register(registry).increment();
    }

    private void waited(Tags tags, String outcome, Duration time) {
        Tags waits = waiting.get();
        if (waits != null) {
            waiting.remove();
            count("redislock.waiting", waits, -1);
        }
        time("redislock.wait.duration", tags, outcome, time);
    }

    private void held(Tags tags, String outcome, Duration time) {
        count("redislock.held", tags, -1);
        time("redislock.hold.duration", tags, outcome, time);
    }

    private void time(String meter, Tags tags, String outcome, Duration time) {
        Timer.builder(meter).tags(tags.and("redislock.outcome", outcome)).serviceLevelObjectives(BUCKETS).register(registry).record(time);
    }

    private void count(String meter, Tags tags, int change) {
        counts.computeIfAbsent(new Counted(meter, tags), counted -> {
            var number = new AtomicInteger();
            Gauge.builder(meter, number, AtomicInteger::get).tags(tags).register(registry);
            return number;
        }).addAndGet(change);
    }

    private Tags tags(List<String> keys, Mode mode) {
        return Tags.of(lockTags.of(keys, mode).stream().map(each -> Tag.of(each.getKey(), each.getValue())).toList());
    }
}
