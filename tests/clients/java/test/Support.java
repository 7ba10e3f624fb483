import java.net.URI;
import java.time.Duration;
import java.util.List;
import java.util.Set;
import java.util.concurrent.Callable;
import redis.clients.jedis.ConnectionPoolConfig;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.JedisClientConfig;
import redis.clients.jedis.RedisClient;
import redis.clients.jedis.RedisClusterClient;
import redis.clients.jedis.util.JedisURIHelper;
import redis.clients.jedis.util.KeyValue;

/** What both clients' tests share: a client as something that sends words, and waiting. */
final class Support {
    static final String URL = System.getenv("REDIS_URL");

    /** The client for waits, as the docs make it. */
    static RedisClient jedisThatWaits(int connections) {
        var url = URI.create(URL);
        return RedisClient.builder().hostAndPort(JedisURIHelper.getHostAndPort(url)).clientConfig(timeout())
            .poolConfig(pool(connections)).build();
    }

    static RedisClusterClient jedisThatWaitsOnACluster(Set<HostAndPort> nodes) {
        return RedisClusterClient.builder().nodes(nodes).clientConfig(timeout()).poolConfig(pool(100)).build();
    }

    private static JedisClientConfig timeout() {
        return DefaultJedisClientConfig.builder(URI.create(URL)).blockingSocketTimeoutMillis(65_000).build();
    }

    private static ConnectionPoolConfig pool(int connections) {
        var pool = new ConnectionPoolConfig();
        pool.setMaxTotal(connections);
        pool.setMaxWait(Duration.ofMinutes(1));
        return pool;
    }

    /** The reply as the client gives it; a client that waits is given a connection of its own. */
    interface Sender {
        Object send(String... words) throws Exception;
    }

    /** What LOCK.INFO says, however the client gives it: in a row, or as pairs (Jedis, RESP3). */
    static Object field(Object info, String name) {
        var list = (List<?>) info;
        for (int at = 0; at < list.size(); at++) {
            if (list.get(at) instanceof KeyValue<?, ?> pair) {
                if (text(pair.getKey()).equals(name)) return pair.getValue();
            } else if (text(list.get(at)).equals(name)) {
                return list.get(at + 1);
            }
        }
        throw new AssertionError(name + " is missing in " + info);
    }

    /** Jedis gives bytes, Lettuce strings. */
    static String text(Object value) {
        return value instanceof byte[] bytes ? new String(bytes) : String.valueOf(value);
    }

    static void waitFor(String what, Callable<Boolean> condition) throws Exception {
        for (long end = System.nanoTime() + 30_000_000_000L; !condition.call(); Thread.sleep(2)) {
            if (System.nanoTime() > end) throw new AssertionError("not within 30 s: " + what);
        }
    }
}
