import io.lettuce.core.RedisClient;
import io.lettuce.core.api.sync.RedisCommands;
import io.lettuce.core.codec.StringCodec;
import io.lettuce.core.output.ArrayOutput;
import io.lettuce.core.output.IntegerOutput;
import io.lettuce.core.protocol.CommandArgs;
import io.lettuce.core.protocol.ProtocolKeyword;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.locks.Lock;
import org.redisson.Redisson;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.commands.ProtocolCommand;

/** A client of its own, and its lock, used as the library's users would use it. */
interface Locks {
    void acquire();

    void release();

    static Locks open(String who, String address, String key) {
        return switch (who) {
            case "redislock" -> new Redislock(address, key);
            case "lettuce" -> new OfLettuce(address, key);
            case "session" -> new Redislock(address, key, "SESSION");
            case "rlock" -> new OfLock(redisson(address).getLock(key));
            case "fair" -> new OfLock(redisson(address).getFairLock(key));
            default -> Tasks.open(who, address).apply(key);
        };
    }

    static Jedis jedis(String address) {
        var parts = address.split(":");
        var client = new Jedis(parts[0], Integer.parseInt(parts[1]));
        client.ping();
        return client;
    }

    static RedissonClient redisson(String address) {
        var config = new Config();
        // One connection for commands, like the other clients; by default Redisson would open 24 at its start.
        config.useSingleServer().setAddress("redis://" + address).setConnectionMinimumIdleSize(1).setConnectionPoolSize(1);
        return Redisson.create(config);
    }

    final class Redislock implements Locks {
        private static final ProtocolCommand ACQUIRE = "LOCK.ACQUIRE"::getBytes, RELEASE = "LOCK.RELEASE"::getBytes;
        private final Jedis client;
        private final String key;
        private final String[] words;
        private String owner;
        private long fence;

        Redislock(String address, String key, String... words) {
            client = jedis(address);
            this.key = key;
            this.words = words;
        }

        @Override
        public void acquire() {
            owner = UUID.randomUUID().toString();
            var command = new ArrayList<>(List.of(key, "OWNER", owner, "PX", "30000", "BLOCK", "0", "ONCE"));
            Collections.addAll(command, words);
            var grant = (List<?>) client.sendBlockingCommand(ACQUIRE, command.toArray(String[]::new));
            fence = (Long) grant.get(1);
        }

        @Override
        public void release() {
            client.sendCommand(RELEASE, key, owner, "FENCE", Long.toString(fence));
        }
    }

    /** Sends the commands with Lettuce, the client library under our package. It has its own connection, because the commands block. */
    final class OfLettuce implements Locks {
        private static final ProtocolKeyword ACQUIRE = () -> "LOCK.ACQUIRE".getBytes(StandardCharsets.UTF_8);
        private static final ProtocolKeyword RELEASE = () -> "LOCK.RELEASE".getBytes(StandardCharsets.UTF_8);
        private final RedisCommands<String, String> client;
        private final String key;
        private String owner;
        private long fence;

        OfLettuce(String address, String key) {
            var connection = RedisClient.create("redis://" + address).connect();
            connection.setTimeout(Duration.ZERO); // a wait has no end
            client = connection.sync();
            this.key = key;
        }

        private static CommandArgs<String, String> words() {
            return new CommandArgs<>(StringCodec.UTF8);
        }

        @Override
        public void acquire() {
            owner = UUID.randomUUID().toString();
            var words = words().addKey(key).add("OWNER").add(owner).add("PX").add(30_000).add("BLOCK").add(0).add("ONCE");
            fence = (Long) client.dispatch(ACQUIRE, new ArrayOutput<>(StringCodec.UTF8), words).get(1);
        }

        @Override
        public void release() {
            var words = words().addKey(key).add(owner).add("FENCE").add(fence);
            client.dispatch(RELEASE, new IntegerOutput<>(StringCodec.UTF8), words);
        }
    }

    /** Redisson's lock with the watchdog, which keeps the lease at 30 s. */
    final class OfLock implements Locks {
        private final Lock lock;

        OfLock(Lock lock) {
            this.lock = lock;
        }

        @Override
        public void acquire() {
            lock.lock();
        }

        @Override
        public void release() {
            lock.unlock();
        }
    }
}
