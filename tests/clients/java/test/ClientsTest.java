import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.lettuce.core.ClientOptions;
import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.codec.StringCodec;
import io.lettuce.core.output.ArrayOutput;
import io.lettuce.core.protocol.CommandArgs;
import io.lettuce.core.protocol.ProtocolVersion;
import java.util.Arrays;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import redis.clients.jedis.CommandArguments;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.RedisClient;
import redis.clients.jedis.RedisProtocol;
import redis.clients.jedis.commands.ProtocolCommand;
import redis.clients.jedis.util.KeyValue;

/** Raw commands through Jedis and Lettuce, in RESP2 and RESP3: what the page about raw commands says of them. */
class ClientsTest {
    static final String URL = System.getenv("REDIS_URL");

    /** The reply as the client gives it; one that waits has a connection of its own. */
    private interface Sender {
        Object send(String... words) throws Exception;
    }

    @ParameterizedTest
    @EnumSource(value = RedisProtocol.class, names = {"RESP2", "RESP3"})
    void jedis(RedisProtocol protocol) throws Exception {
        var config = DefaultJedisClientConfig.builder().protocol(protocol).socketTimeoutMillis(30_000).build();
        var url = java.net.URI.create(URL);
        var address = new HostAndPort(url.getHost(), url.getPort());
        try (var pool = RedisClient.builder().hostAndPort(address).clientConfig(config).build();
                var one = pool.getPool().getResource()) {
            Sender blocking = words -> pool.sendBlockingCommand(command(words), rest(words));
            fromGrantToEnd(blocking, blocking);
            fromGrantToEnd(words -> one.executeCommand(new CommandArguments(command(words)).addObjects((Object[]) rest(words))), blocking);
        }
    }

    @ParameterizedTest
    @EnumSource(ProtocolVersion.class)
    void lettuceSharedConnection(ProtocolVersion protocol) throws Exception {
        try (var client = io.lettuce.core.RedisClient.create(URL)) {
            client.setOptions(ClientOptions.builder().protocolVersion(protocol).build());
            var shared = client.connect();
            var other = client.connect();
            fromGrantToEnd(words -> send(shared, words), words -> send(other, words));
        }
    }

    private static void fromGrantToEnd(Sender client, Sender other) throws Exception {
        String key = UUID.randomUUID().toString();
        List<?> grant = (List<?>) client.send("LOCK.ACQUIRE", key, "OWNER", "alice", "PX", "30000");
        assertEquals(List.of("alice", 1L, 30_000L), List.of(text(grant.get(0)), grant.get(2), grant.get(3)));
        assertNull(client.send("LOCK.ACQUIRE", key, "OWNER", "bob"));

        var waiting = new FutureTask<>(() -> other.send("LOCK.ACQUIRE", key, "OWNER", "bob", "PX", "30000", "BLOCK", "0"));
        var thread = new Thread(waiting);
        thread.setDaemon(true);
        thread.start();
        waitFor("bob waits", () -> field(client.send("LOCK.INFO", key), "waiters").equals(1L));
        assertEquals(0L, client.send("LOCK.RELEASE", key, "alice", "FENCE", "" + grant.get(1)));
        List<?> next = (List<?>) waiting.get(30, TimeUnit.SECONDS);
        assertTrue((Long) next.get(1) > (Long) grant.get(1));
        var refused = assertThrows(Exception.class, () -> client.send("LOCK.EXTEND", key, "alice"));
        assertTrue(refused.getMessage().startsWith("NOTHELD "), refused.getMessage());
        assertEquals(0L, client.send("LOCK.RELEASE", key, "bob"));
        assertNull(client.send("LOCK.INFO", key));
    }

    /** What LOCK.INFO says, however the client gives it: in a row, or as pairs (Jedis, RESP3). */
    private static Object field(Object info, String name) {
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
    private static String text(Object value) {
        return value instanceof byte[] bytes ? new String(bytes) : String.valueOf(value);
    }

    private static Object send(StatefulRedisConnection<String, String> connection, String... words) {
        var args = new CommandArgs<>(StringCodec.UTF8);
        for (String word : rest(words)) args.add(word);
        List<Object> reply = connection.sync().dispatch(words[0]::getBytes, new ArrayOutput<>(StringCodec.UTF8), args);
        return reply.size() > 1 ? reply : reply.isEmpty() ? null : reply.get(0);
    }

    private static ProtocolCommand command(String[] words) {
        return words[0]::getBytes;
    }

    private static String[] rest(String[] words) {
        return Arrays.copyOfRange(words, 1, words.length);
    }

    interface Condition {
        boolean holds() throws Exception;
    }

    static void waitFor(String what, Condition condition) throws Exception {
        for (long end = System.nanoTime() + 60_000_000_000L; !condition.holds(); Thread.sleep(2)) {
            if (System.nanoTime() > end) throw new AssertionError("not within a minute: " + what);
        }
    }
}
