package redislock.spring.boot;

import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnBean;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.boot.data.redis.autoconfigure.DataRedisAutoConfiguration;
import org.springframework.context.SmartLifecycle;
import org.springframework.context.annotation.Bean;
import org.springframework.data.redis.connection.lettuce.LettuceConnectionFactory;
import redislock.Locks;

/** The {@link Locks} of the program, with Spring's own Lettuce client. */
@AutoConfiguration(after = DataRedisAutoConfiguration.class)
@ConditionalOnBean(LettuceConnectionFactory.class)
public class RedislockAutoConfiguration {
    @Bean
    @ConditionalOnMissingBean
    Locks redislock(LettuceConnectionFactory connections) {
        return new Locks(connections.getRequiredNativeClient());
    }

    @Bean
    SmartLifecycle redislockClosing(Locks locks, LettuceConnectionFactory connections) {
        return new Closing(locks, connections.getPhase() + 1);
    }

    /**
     * Closes the locks when those that use them have stopped, such as the web server. Spring destroys beans only after it has stopped
     * its client: then nothing could be released any more.
     */
    private static final class Closing implements SmartLifecycle {
        private final Locks locks;
        private final int phase;
        private volatile boolean running;

        Closing(Locks locks, int phase) {
            this.locks = locks;
            this.phase = phase;
        }

        @Override
        public void start() {
            running = true;
        }

        @Override
        public void stop() {
            running = false;
            locks.close();
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
