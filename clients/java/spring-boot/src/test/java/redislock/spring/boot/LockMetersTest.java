package redislock.spring.boot;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.lettuce.core.RedisClient;
import io.lettuce.core.codec.StringCodec;
import io.lettuce.core.output.IntegerOutput;
import io.lettuce.core.protocol.CommandArgs;
import io.lettuce.core.protocol.ProtocolKeyword;
import io.micrometer.core.instrument.Counter;
import io.micrometer.core.instrument.Gauge;
import io.micrometer.core.instrument.Meter;
import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.Timer;
import io.micrometer.core.instrument.simple.SimpleMeterRegistry;
import io.micrometer.tracing.Tracer;
import io.micrometer.tracing.otel.bridge.OtelCurrentTraceContext;
import io.micrometer.tracing.otel.bridge.OtelTracer;
import io.opentelemetry.api.trace.SpanKind;
import io.opentelemetry.api.trace.StatusCode;
import io.opentelemetry.sdk.testing.exporter.InMemorySpanExporter;
import io.opentelemetry.sdk.trace.SdkTracerProvider;
import io.opentelemetry.sdk.trace.data.SpanData;
import io.opentelemetry.sdk.trace.export.SimpleSpanProcessor;
import java.time.Duration;
import java.util.List;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import java.util.stream.Collectors;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.springframework.boot.WebApplicationType;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.boot.builder.SpringApplicationBuilder;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import redislock.Held;
import redislock.LockException;
import redislock.Locks;

/** Tests what a program with a MeterRegistry and a Tracer shows of its locks, without any other configuration. */
@Timeout(60)
class LockMetersTest {
    private final String key = "invoice:" + UUID.randomUUID();
    private ConfigurableApplicationContext context;
    private MeterRegistry registry;
    private Locks locks;
    private Held others;

    @EnableAutoConfiguration
    @Configuration(proxyBeanMethods = false)
    static class Program {
        @Bean
        InMemorySpanExporter spans() {
            return InMemorySpanExporter.create();
        }

        @Bean
        Tracer tracer(InMemorySpanExporter spans) {
            var provider = SdkTracerProvider.builder().addSpanProcessor(SimpleSpanProcessor.create(spans)).build();
            return new OtelTracer(provider.get("test"), new OtelCurrentTraceContext(), event -> {});
        }
    }

    @Configuration(proxyBeanMethods = false)
    static class Named {
        @Bean
        LockName name() {
            return key -> key.split(":")[0];
        }
    }

    @BeforeEach
    void start() {
        start(Program.class);
    }

    private void start(Class<?>... program) {
        context = new SpringApplicationBuilder(program).web(WebApplicationType.NONE)
            .properties("spring.data.redis.url=" + System.getenv("REDIS_URL"), "logging.level.root=warn", "spring.main.banner-mode=off").run();
        registry = context.getBean(MeterRegistry.class);
        locks = context.getBean(Locks.class);
    }

    @AfterEach
    void end() {
        context.close();
    }

    private void send(String command, String... words) {
        try (var client = RedisClient.create(System.getenv("REDIS_URL")); var connection = client.connect()) {
            var args = new CommandArgs<>(StringCodec.UTF8);
            for (String word : words) args.add(word);
            ProtocolKeyword name = command::getBytes;
            connection.sync().dispatch(name, new IntegerOutput<>(StringCodec.UTF8), args);
        }
    }

    private static void until(BooleanSupplier so) throws InterruptedException {
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(20);
        while (!so.getAsBoolean()) {
            assertTrue(System.nanoTime() < end, "it does not come");
            Thread.sleep(2);
        }
    }

    private double gauge(String name) {
        Gauge gauge = registry.find(name).tag("redislock.mode", "exclusive").gauge();
        return gauge == null ? 0 : gauge.value();
    }

    private long count(String name, String outcome) {
        Timer timer = registry.find(name).tag("redislock.outcome", outcome).timer();
        return timer == null ? 0 : timer.count();
    }

    private static Set<String> tags(Meter meter) {
        return meter.getId().getTags().stream().map(tag -> tag.getKey() + "=" + tag.getValue()).collect(Collectors.toSet());
    }

    @Test
    void theRegistryIsTheProgramsOwn() {
        assertEquals(SimpleMeterRegistry.class, registry.getClass());
    }

    @Test
    void aLockThatOthersHoldIsWaitedForInTheCallersTrace() throws Exception {
        Tracer tracer = context.getBean(Tracer.class);
        others = locks.acquire(key);
        assertEquals(1, gauge("redislock.held"));
        var waiting = CompletableFuture.supplyAsync(() -> {
            var span = tracer.nextSpan().name("work").start();
            try (var scope = tracer.withSpan(span); var held = locks.acquire(key)) {
                return held.fence() > 0 && scope != null ? span.context().spanId() : null;
            } catch (InterruptedException e) {
                throw new IllegalStateException(e);
            } finally {
                span.end();
            }
        });
        until(() -> gauge("redislock.waiting") == 1);
        others.close();
        String caller = waiting.get(20, TimeUnit.SECONDS);
        assertEquals(0, gauge("redislock.waiting"));
        assertEquals(0, gauge("redislock.held"));
        assertEquals(2, count("redislock.wait.duration", "acquired"));
        assertEquals(2, count("redislock.hold.duration", "released"));
        Timer waits = registry.get("redislock.wait.duration").timer();
        assertEquals(Set.of("redislock.mode=exclusive", "redislock.outcome=acquired"), tags(waits));
        assertEquals(12, waits.takeSnapshot().histogramCounts().length);
        SpanData span = spans().get(0); // a free lock has no span
        assertEquals("redislock.wait", span.getName());
        assertEquals(SpanKind.CLIENT, span.getKind());
        assertEquals(caller, span.getParentSpanId());
        assertEquals("{redislock.mode=\"exclusive\", redislock.outcome=\"acquired\"}", span.getAttributes().asMap().entrySet().stream()
            .map(each -> each.getKey() + "=\"" + each.getValue() + "\"").sorted().collect(Collectors.joining(", ", "{", "}")));
        assertEquals(StatusCode.OK, span.getStatus().getStatusCode());
    }

    private List<SpanData> spans() {
        return context.getBean(InMemorySpanExporter.class).getFinishedSpanItems();
    }

    @Test
    void aRefusalSaysWhyAndIsAnErrorWhereItIsOne() throws Exception {
        others = locks.acquire(key);
        assertTrue(locks.tryAcquire(key).isEmpty());
        assertThrows(LockException.NotAcquired.class, () -> locks.acquire(key, o -> o.wait(Duration.ofSeconds(1))));
        assertEquals(1, count("redislock.wait.duration", "busy"));
        assertEquals(1, count("redislock.wait.duration", "timeout"));
        assertEquals(StatusCode.OK, spans().get(0).getStatus().getStatusCode());
        var waiting = CompletableFuture.supplyAsync(() -> assertThrows(LockException.Closed.class, () -> locks.acquire(key)));
        until(() -> gauge("redislock.waiting") == 1);
        locks.close();
        waiting.get(20, TimeUnit.SECONDS);
        assertEquals(0, gauge("redislock.waiting"));
        assertEquals(1, count("redislock.wait.duration", "closed"));
        assertEquals(StatusCode.ERROR, spans().get(1).getStatus().getStatusCode());
    }

    @Test
    void aLossIsCountedUnderTheNameThatTheProgramGives() throws Exception {
        context.close();
        start(Program.class, Named.class);
        others = locks.acquire(key);
        send("LOCK.BREAK", key);
        until(() -> registry.find("redislock.lost").counter() != null);
        Counter lost = registry.get("redislock.lost").counter();
        assertEquals(1, lost.count());
        assertEquals(Set.of("redislock.mode=exclusive", "redislock.name=invoice", "redislock.reason=the server says that it has ended"), tags(lost));
        assertEquals(1, count("redislock.hold.duration", "lost"));
        assertEquals(0, gauge("redislock.held"));
        assertThrows(LockException.Lost.class, others::close);
        assertEquals(0, count("redislock.hold.duration", "released"));
    }
}
