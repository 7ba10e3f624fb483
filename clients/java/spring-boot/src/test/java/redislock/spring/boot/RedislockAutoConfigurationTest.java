package redislock.spring.boot;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.lettuce.core.RedisClient;
import java.net.URI;
import java.util.UUID;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.springframework.beans.factory.annotation.Qualifier;
import org.springframework.boot.Banner;
import org.springframework.boot.WebApplicationType;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.boot.builder.SpringApplicationBuilder;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.context.SmartLifecycle;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.context.annotation.Primary;
import org.springframework.data.redis.connection.RedisStandaloneConfiguration;
import org.springframework.data.redis.connection.lettuce.LettuceConnectionFactory;
import redislock.Locks;

@Timeout(60)
class RedislockAutoConfigurationTest {
    private final String key = UUID.randomUUID().toString();

    @EnableAutoConfiguration
    @Configuration(proxyBeanMethods = false)
    static class Program {}

    static ConfigurableApplicationContext start(Class<?>... program) {
        return new SpringApplicationBuilder(program).web(WebApplicationType.NONE).bannerMode(Banner.Mode.OFF)
            .properties("spring.data.redis.url=" + System.getenv("REDIS_URL"), "logging.level.root=warn").run();
    }

    static boolean isFree(String key) {
        try (var client = RedisClient.create(System.getenv("REDIS_URL")); var connection = client.connect()) {
            return connection.sync().exists(key) == 0;
        }
    }

    @Test
    void whatIsHeldWhenTheContextClosesIsReleased() throws Exception {
        try (var context = start(Program.class)) {
            var held = context.getBean(Locks.class).acquire(key);
            assertTrue(held.isHeld());
            assertFalse(isFree(key));
        }
        assertTrue(isFree(key));
    }

    /** Stops in the phase of the web server, which first ends its open requests. */
    static class Stopping implements SmartLifecycle {
        private final Locks locks;
        private boolean running;
        String did;

        Stopping(Locks locks) {
            this.locks = locks;
        }

        @Override
        public void start() {
            running = true;
        }

        @Override
        public void stop() {
            running = false;
            try (var held = locks.acquire("while stopping")) {
                did = held.isHeld() ? "held" : "lost";
            } catch (InterruptedException e) {
                throw new IllegalStateException(e);
            }
        }

        @Override
        public boolean isRunning() {
            return running;
        }

        @Override
        public int getPhase() {
            return DEFAULT_PHASE - 2048;
        }
    }

    @Configuration(proxyBeanMethods = false)
    static class WithWork {
        @Bean
        Stopping stopping(Locks locks) {
            return new Stopping(locks);
        }
    }

    @Test
    void whatStopsBeforeCanLockYet() {
        Stopping work;
        try (var context = start(Program.class, WithWork.class)) {
            work = context.getBean(Stopping.class);
        }
        assertEquals("held", work.did);
    }

    @Configuration(proxyBeanMethods = false)
    static class WithLocks {
        @Bean
        Locks own(LettuceConnectionFactory connections) {
            return new Locks(connections.getRequiredNativeClient());
        }
    }

    @Test
    void aProgramCanHaveLocksOfItsOwn() throws Exception {
        try (var context = start(Program.class, WithLocks.class)) {
            assertSame(context.getBean("own"), context.getBean(Locks.class));
            context.getBean(Locks.class).acquire(key);
        }
        assertTrue(isFree(key));
    }

    /** CRaC stops and starts the contexts of all programs in this way. */
    @Test
    void aContextThatIsStoppedAndStartedAgainCanLockAgain() throws Exception {
        try (var context = start(Program.class)) {
            var locks = context.getBean(Locks.class);
            locks.acquire(key);
            context.stop();
            assertTrue(isFree(key));
            context.start();
            assertTrue(locks.tryAcquire(key).isPresent());
        }
        assertTrue(isFree(key));
    }

    @Configuration(proxyBeanMethods = false)
    static class WithTwoServers {
        @Bean
        @Primary
        LettuceConnectionFactory one() {
            return new LettuceConnectionFactory(server());
        }

        @Bean
        LettuceConnectionFactory two() {
            return new LettuceConnectionFactory(server());
        }

        private static RedisStandaloneConfiguration server() {
            var url = URI.create(System.getenv("REDIS_URL"));
            return new RedisStandaloneConfiguration(url.getHost(), url.getPort());
        }
    }

    @Configuration(proxyBeanMethods = false)
    static class WithTwoLocks {
        @Bean
        Locks first(LettuceConnectionFactory connections) {
            return new Locks(connections.getRequiredNativeClient());
        }

        @Bean
        Locks second(@Qualifier("two") LettuceConnectionFactory connections) {
            return new Locks(connections.getRequiredNativeClient());
        }
    }

    @Test
    void aProgramWithTwoServersCanHaveLocksOnBoth() throws Exception {
        try (var context = start(Program.class, WithTwoServers.class, WithTwoLocks.class)) {
            context.getBean("first", Locks.class).acquire(key);
            context.getBean("second", Locks.class).acquire(key + "2");
        }
        assertTrue(isFree(key));
        assertTrue(isFree(key + "2"));
    }
}
