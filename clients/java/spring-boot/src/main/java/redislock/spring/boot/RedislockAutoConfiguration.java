package redislock.spring.boot;

import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.tracing.Tracer;
import java.util.List;
import org.springframework.beans.factory.ObjectProvider;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnClass;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.boot.autoconfigure.condition.ConditionalOnSingleCandidate;
import org.springframework.context.SmartLifecycle;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.data.redis.connection.lettuce.LettuceConnectionFactory;
import redislock.LockObserver;
import redislock.Locks;

/** The beans of a program: {@link Locks} with Spring's own Lettuce client, and Micrometer's meters and spans. */
@AutoConfiguration(afterName = {
    "org.springframework.boot.data.redis.autoconfigure.DataRedisAutoConfiguration",
    "org.springframework.boot.autoconfigure.data.redis.RedisAutoConfiguration" // Spring Boot 3
})
@ConditionalOnSingleCandidate(LettuceConnectionFactory.class)
public class RedislockAutoConfiguration {
    @Bean
    @ConditionalOnMissingBean
    Locks redislock(LettuceConnectionFactory connections, ObjectProvider<LockObserver> observers) {
        return new Locks(connections::getRequiredNativeClient, LockObservers.of(observers.orderedStream().toList()));
    }

    @Configuration(proxyBeanMethods = false)
    @ConditionalOnClass(MeterRegistry.class)
    static class Meters {
        /** Returns null, which makes no bean, if the program has no registry. */
        @Bean
        @ConditionalOnMissingBean
        LockMeters redislockMeters(ObjectProvider<MeterRegistry> registries, ObjectProvider<LockName> name) {
            MeterRegistry registry = registries.getIfUnique();
            return registry == null ? null : new LockMeters(registry, name.getIfAvailable());
        }
    }

    @Configuration(proxyBeanMethods = false)
    @ConditionalOnClass(Tracer.class)
    static class Spans {
        @Bean
        @ConditionalOnMissingBean
        LockSpans redislockSpans(ObjectProvider<Tracer> tracers, ObjectProvider<LockName> name) {
            Tracer tracer = tracers.getIfUnique();
            return tracer == null ? null : new LockSpans(tracer, name.getIfAvailable());
        }
    }

    @Bean
    SmartLifecycle redislockClosing(List<Locks> all, LettuceConnectionFactory connections) {
        return new Closing(all, connections.getPhase() + 1);
    }

    /**
     * Closes the locks after the beans that use them have stopped, such as the web server. Spring destroys beans only after it has stopped its
     * client, when nothing could be released any more. A context that is started again, as between tests, has a new client.
     */
    private static final class Closing implements SmartLifecycle {
        private final List<Locks> all;
        private final int phase;
        private volatile boolean running;

        Closing(List<Locks> all, int phase) {
            this.all = all;
            this.phase = phase;
        }

        @Override
        public void start() {
            all.forEach(Locks::reopen);
            running = true;
        }

        @Override
        public void stop() {
            running = false;
            all.forEach(Locks::close);
        }

        @Override
        public boolean isRunning() {
            return running;
        }

        @Override
        public int getPhase() {
            return phase;
        }
    }
}
