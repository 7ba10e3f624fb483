package redislock.spring;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.lettuce.core.RedisClient;
import java.time.Duration;
import java.util.ArrayList;
import java.util.ConcurrentModificationException;
import java.util.UUID;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.springframework.integration.leader.Context;
import org.springframework.integration.leader.DefaultCandidate;
import org.springframework.integration.support.leader.LockRegistryLeaderInitiator;
import redislock.Locks;

/** Tests what Spring Integration promises of a registry, and what it demands of its own ones. Each registry stands for a process. */
@Timeout(60)
class RedislockRegistryTest {
    private final String name = UUID.randomUUID().toString();
    private RedisClient client;
    private Locks locks;
    private Locks others;
    private RedislockRegistry registry;
    private RedislockRegistry other;

    @BeforeEach
    void open() {
        client = RedisClient.create(System.getenv("REDIS_URL"));
        locks = new Locks(client);
        others = new Locks(client);
        registry = new RedislockRegistry(locks, name);
        other = new RedislockRegistry(others, name);
    }

    @AfterEach
    void close() {
        locks.close();
        others.close();
        client.close();
    }

    private static <T> T inAnotherThread(Callable<T> work) throws Exception {
        var task = new FutureTask<>(work);
        new Thread(task).start();
        return task.get(30, TimeUnit.SECONDS);
    }

    private long ttl(String key) {
        return client.connect().sync().pttl(name + ":" + key);
    }

    @Test
    void locksOfOneKeyAreOneAndOthersAreNot() {
        assertEquals(registry.obtain("foo"), registry.obtain("foo"));
        assertNotEquals(registry.obtain("foo"), registry.obtain("bar"));
        registry.obtain("foo").lock();
        assertTrue(other.obtain("bar").tryLock());
        assertFalse(other.obtain("foo").tryLock());
        other.obtain("bar").unlock();
        registry.obtain("foo").unlock();
    }

    @Test
    void aKeyIsAString() {
        assertThrows(IllegalArgumentException.class, () -> registry.obtain(42));
    }

    @Test
    void lockAndUnlockAgainAndAgainInAllWays() throws Exception {
        var lock = registry.obtain("foo");
        for (int round = 0; round < 10; round++) {
            lock.lock();
            lock.unlock();
            lock.lockInterruptibly();
            lock.unlock();
            assertTrue(lock.tryLock(1, TimeUnit.SECONDS));
            lock.unlock();
        }
        assertEquals(-2, ttl("foo"));
    }

    @Test
    void itIsReentrantWithinItsThreadAndForNobodyElse() throws Exception {
        var lock = registry.obtain("foo");
        lock.lock();
        assertTrue(registry.obtain("foo").tryLock(1, TimeUnit.SECONDS));
        assertFalse(inAnotherThread(() -> registry.obtain("foo").tryLock()));
        lock.unlock();
        assertFalse(inAnotherThread(() -> other.obtain("foo").tryLock()));
        lock.unlock();
        assertTrue(inAnotherThread(() -> other.obtain("foo").tryLock()));
    }

    @Test
    void onlyItsThreadUnlocks() {
        registry.obtain("foo").lock();
        var refused = assertThrows(ExecutionException.class, () -> inAnotherThread(() -> {
            registry.obtain("foo").unlock();
            return true;
        }));
        assertEquals(IllegalMonitorStateException.class, refused.getCause().getClass());
        registry.obtain("foo").unlock();
        assertThrows(IllegalMonitorStateException.class, () -> registry.obtain("foo").unlock());
    }

    @Test
    void theOtherRegistryWaitsUntilItIsUnlocked() throws Exception {
        registry.obtain("foo").lock();
        var waiting = new FutureTask<>(() -> other.obtain("foo").tryLock(20, TimeUnit.SECONDS));
        new Thread(waiting).start();
        assertThrows(TimeoutException.class, () -> waiting.get(200, TimeUnit.MILLISECONDS));
        registry.obtain("foo").unlock();
        assertTrue(waiting.get(20, TimeUnit.SECONDS));
    }

    @Test
    void aLockWithTimeToLiveEndsThen() throws Exception {
        var lock = registry.obtain("foo");
        assertTrue(lock.tryLock(Duration.ZERO, Duration.ofMillis(300)));
        assertTrue(ttl("foo") <= 300);
        assertTrue(other.obtain("foo").tryLock(20, TimeUnit.SECONDS));
        assertThrows(ConcurrentModificationException.class, lock::unlock);
        other.obtain("foo").unlock();
        lock.lock(Duration.ofMinutes(5));
        assertTrue(ttl("foo") > 200_000);
        lock.unlock();
    }

    @Test
    void withoutOneItIsRenewed() throws Exception {
        registry = new RedislockRegistry(locks, name, options -> options.lease(Duration.ofMillis(400)));
        registry.obtain("foo").lock();
        assertFalse(other.obtain("foo").tryLock(1500, TimeUnit.MILLISECONDS));
        registry.obtain("foo").unlock();
    }

    @Test
    void itIsRenewedByHand() throws Exception {
        registry.obtain("foo").lock(Duration.ofSeconds(20));
        registry.renewLock("foo", Duration.ofMinutes(5));
        assertTrue(ttl("foo") > 200_000);
        client.connect().sync().pexpire(name + ":foo", 50_000);
        registry.renewLock("foo");
        assertTrue(ttl("foo") > 200_000);
        assertThrows(ExecutionException.class, () -> inAnotherThread(() -> {
            registry.renewLock("foo");
            return true;
        }));
        registry.obtain("foo").unlock();
        assertThrows(IllegalMonitorStateException.class, () -> registry.renewLock("foo"));
    }

    @Test
    void aTaskIsExecutedLockedOrNotAtAll() throws Exception {
        var ran = new ArrayList<String>();
        registry.executeLocked("foo", () -> {
            ran.add("first");
            assertThrows(ExecutionException.class, () -> inAnotherThread(() -> {
                other.executeLocked("foo", Duration.ofMillis(100), () -> ran.add("second"));
                return true;
            }));
        });
        assertEquals("third", other.executeLocked("foo", () -> "third"));
        assertEquals(1, ran.size());
    }

    @Test
    void oneLeadsAndAnotherFollowsWhenItStopsOrLosesTheLock() throws Exception {
        var first = new Standing(registry, "first");
        first.initiator.start();
        assertEquals("first leads", first.next());
        var second = new Standing(other, "second");
        second.initiator.start();
        assertNull(second.told.poll(500, TimeUnit.MILLISECONDS));
        client.connect().sync().del(name + ":leader");
        assertEquals("first follows", first.next());
        first.initiator.stop();
        assertEquals("second leads", second.next());
        second.initiator.stop();
        assertEquals("second follows", second.next());
    }

    /** A candidate for the leadership, and the events that it has been told. */
    private static final class Standing {
        final LinkedBlockingQueue<String> told = new LinkedBlockingQueue<>();
        final LockRegistryLeaderInitiator initiator;

        Standing(RedislockRegistry registry, String id) {
            initiator = new LockRegistryLeaderInitiator(registry, new DefaultCandidate(id, "leader") {
                @Override
                public void onGranted(Context context) {
                    told.add(id + " leads");
                }

                @Override
                public void onRevoked(Context context) {
                    told.add(id + " follows");
                }
            });
            initiator.setHeartBeatMillis(100);
            initiator.setBusyWaitMillis(100);
        }

        String next() throws InterruptedException {
            String next = told.poll(20, TimeUnit.SECONDS);
            assertNotNull(next, "nothing happened");
            return next;
        }
    }
}
