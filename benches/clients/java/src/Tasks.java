import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisURI;
import io.lettuce.core.cluster.RedisClusterClient;
import java.time.Duration;
import java.time.Instant;
import java.util.function.Function;
import java.util.stream.Stream;
import net.javacrumbs.shedlock.core.LockConfiguration;
import net.javacrumbs.shedlock.core.SimpleLock;
import net.javacrumbs.shedlock.provider.redis.spring.RedisLockProvider;
import org.redisson.Redisson;
import org.redisson.config.Config;
import org.springframework.data.redis.connection.lettuce.LettuceConnectionFactory;
import org.springframework.integration.redis.util.RedisLockRegistry;
import redislock.Held;

/** The tasks of one program: they share what the library is meant to share, with its defaults, and each gets its own lock from it. */
interface Tasks {
    Duration LEASE = Duration.ofSeconds(30);

    static Function<String, Locks> open(String who, String address) {
        return switch (who) {
            case "package" -> {
                var nodes = Stream.of(address.split(",")).map(node -> RedisURI.create("redis://" + node)).toList(); // several: of a cluster
                var ours = new redislock.Locks(nodes.size() > 1 ? RedisClusterClient.create(nodes) : RedisClient.create(nodes.get(0)));
                yield key -> new OfPackage(ours, key);
            }
            case "rlock" -> {
                var config = new Config();
                config.useSingleServer().setAddress("redis://" + address);
                var client = Redisson.create(config);
                yield key -> new Locks.OfLock(client.getLock(key));
            }
            case "spring" -> {
                var registry = new RedisLockRegistry(spring(address), "registry", LEASE);
                yield key -> new Locks.OfLock(registry.obtain(key));
            }
            case "shedlock" -> {
                var provider = new RedisLockProvider(spring(address));
                yield key -> new OfShedLock(provider, key);
            }
            default -> throw new IllegalArgumentException(who);
        };
    }

    private static LettuceConnectionFactory spring(String address) {
        var parts = address.split(":");
        var connections = new LettuceConnectionFactory(parts[0], Integer.parseInt(parts[1]));
        connections.afterPropertiesSet();
        connections.start();
        return connections;
    }

    final class OfPackage implements Locks {
        private final redislock.Locks ours;
        private final String key;
        private Held held;

        OfPackage(redislock.Locks ours, String key) {
            this.ours = ours;
            this.key = key;
        }

        @Override
        public void acquire() {
            try {
                held = ours.acquire(key, options -> options.lease(LEASE));
            } catch (InterruptedException e) {
                throw new IllegalStateException(e);
            }
        }

        @Override
        public void release() {
            held.close();
        }
    }

    /** ShedLock does not wait, so it is measured only on locks that nobody else wants. */
    final class OfShedLock implements Locks {
        private final RedisLockProvider provider;
        private final String key;
        private SimpleLock lock;

        OfShedLock(RedisLockProvider provider, String key) {
            this.provider = provider;
            this.key = key;
        }

        @Override
        public void acquire() {
            lock = provider.lock(new LockConfiguration(Instant.now(), key, LEASE, Duration.ZERO)).orElseThrow();
        }

        @Override
        public void release() {
            lock.unlock();
        }
    }
}
