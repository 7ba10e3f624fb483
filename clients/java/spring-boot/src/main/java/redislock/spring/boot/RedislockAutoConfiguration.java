package redislock.spring.boot;

import java.util.List;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.boot.autoconfigure.condition.ConditionalOnSingleCandidate;
import org.springframework.boot.data.redis.autoconfigure.DataRedisAutoConfiguration;
import org.springframework.context.SmartLifecycle;
import org.springframework.context.annotation.Bean;
import org.springframework.data.redis.connection.lettuce.LettuceConnectionFactory;
import redislock.Locks;

/** The {@link Locks} of the program, with Spring's own Lettuce client. */
@AutoConfiguration(after = DataRedisAutoConfiguration.class)
@ConditionalOnSingleCandidate(LettuceConnectionFactory.class)
public class RedislockAutoConfiguration {
    @Bean
    @ConditionalOnMissingBean
    Locks redislock(LettuceConnectionFactory connections) {
        return new Locks(connections::getRequiredNativeClient);
    }

    @Bean
    SmartLifecycle redislockClosing(List<Locks> all, LettuceConnectionFactory connections) {
        return new Closing(all, connections.getPhase() + 1);
    }

    /**
     * Closes the locks when those that use them have stopped, such as the web server. Spring destroys beans only after it has stopped
     * its client: then nothing could be released any more. A context that is started again, as between tests, has a new client.
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
