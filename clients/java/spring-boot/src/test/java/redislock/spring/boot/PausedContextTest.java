package redislock.spring.boot;

import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.UUID;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import redislock.Locks;

/** From version 7 on, Spring's tests pause a context that later tests will need again. This test does the same. */
@Timeout(60)
class PausedContextTest {
    @Test
    void aContextThatIsPausedAndRestartedCanLockAgain() throws Exception {
        String key = UUID.randomUUID().toString();
        try (var context = RedislockAutoConfigurationTest.start(RedislockAutoConfigurationTest.Program.class)) {
            var locks = context.getBean(Locks.class);
            locks.acquire(key);
            context.pause();
            assertTrue(RedislockAutoConfigurationTest.isFree(key));
            context.restart();
            assertTrue(locks.tryAcquire(key).isPresent());
        }
    }
}
