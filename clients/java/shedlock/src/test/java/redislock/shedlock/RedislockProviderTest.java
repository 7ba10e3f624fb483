package redislock.shedlock;

import static org.assertj.core.api.Assertions.assertThat;

import io.lettuce.core.RedisClient;
import io.lettuce.core.api.sync.RedisCommands;
import java.time.Duration;
import net.javacrumbs.shedlock.core.ExtensibleLockProvider;
import net.javacrumbs.shedlock.test.support.AbstractExtensibleLockProviderIntegrationTest;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import redislock.Locks;

/** Runs ShedLock's own tests of providers, and tests what these leave out. */
class RedislockProviderTest extends AbstractExtensibleLockProviderIntegrationTest {
    private RedisClient client;
    private RedisCommands<String, String> commands;
    private Locks locks;

    @BeforeEach
    void open() {
        client = RedisClient.create(System.getenv("REDIS_URL"));
        commands = client.connect().sync();
        locks = new Locks(client);
    }

    @AfterEach
    void close() {
        locks.close();
        client.close();
    }

    @Override
    protected ExtensibleLockProvider getLockProvider() {
        return new RedislockProvider(locks);
    }

    @Override
    protected void assertUnlocked(String name) {
        assertThat(commands.exists("shedlock:" + name)).isZero();
    }

    @Override
    protected void assertLocked(String name) {
        assertThat(commands.type("shedlock:" + name)).isEqualTo("lockstate");
    }

    @Test
    void lockAtLeastForOutlivesTheProcess() {
        var lock = getLockProvider().lock(lockConfig(LOCK_NAME1, Duration.ofMinutes(5), Duration.ofMinutes(1))).orElseThrow();
        lock.unlock();
        locks.close();
        assertLocked(LOCK_NAME1);
        assertThat(commands.pttl("shedlock:" + LOCK_NAME1)).isBetween(50_000L, 60_000L);
    }

    @Test
    void lockAtMostForIsNotRenewed() {
        getLockProvider().lock(lockConfig(LOCK_NAME1, Duration.ofMinutes(5), Duration.ZERO));
        assertThat(commands.pttl("shedlock:" + LOCK_NAME1)).isBetween(290_000L, 300_000L);
    }

    @Test
    void aJobThatRanTooLongDoesNotEndTheLockOfTheNextOne() {
        var late = getLockProvider().lock(lockConfig(LOCK_NAME1, Duration.ofMillis(50), Duration.ZERO)).orElseThrow();
        sleepFor(Duration.ofMillis(100));
        var next = getLockProvider().lock(lockConfig(LOCK_NAME1)).orElseThrow();
        late.unlock();
        assertLocked(LOCK_NAME1);
        next.unlock();
        assertUnlocked(LOCK_NAME1);
    }
}
