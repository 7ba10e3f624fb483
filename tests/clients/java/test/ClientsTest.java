import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.lettuce.core.ClientOptions;
import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.codec.StringCodec;
import io.lettuce.core.output.ArrayOutput;
import io.lettuce.core.protocol.CommandArgs;
import io.lettuce.core.protocol.ProtocolKeyword;
import io.lettuce.core.protocol.ProtocolVersion;
import java.util.Arrays;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import redis.clients.jedis.Connection;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.RedisClient;
import redis.clients.jedis.RedisProtocol;
import redis.clients.jedis.commands.ProtocolCommand;

/** Raw commands through Jedis and Lettuce, in RESP2 and RESP3. */
class ClientsTest {
    @ParameterizedTest
    @EnumSource(value = RedisProtocol.class, names = {"RESP2", "RESP3"})
    void jedisPool(RedisProtocol protocol) throws Exception {
        try (var pool = jedis(protocol)) {
            // A wait takes a connection of the pool.
            Support.Sender sender = words -> pool.sendBlockingCommand(command(words), rest(words));
            fromGrantToEnd(sender, sender);
        }
    }

    @ParameterizedTest
    @EnumSource(value = RedisProtocol.class, names = {"RESP2", "RESP3"})
    void jedisOneConnection(RedisProtocol protocol) throws Exception {
        try (var pool = jedis(protocol);
                Connection one = pool.getPool().getResource();
                Connection other = pool.getPool().getResource()) {
            other.setTimeoutInfinite();
            fromGrantToEnd(words -> one.executeCommand(words(words)), words -> other.executeCommand(words(words)));
        }
    }

    @ParameterizedTest
    @EnumSource(ProtocolVersion.class)
    void lettuceSharedConnection(ProtocolVersion protocol) throws Exception {
        try (var client = io.lettuce.core.RedisClient.create(Support.URL)) {
            client.setOptions(ClientOptions.builder().protocolVersion(protocol).build());
            var shared = client.connect();
            var other = client.connect();
            fromGrantToEnd(words -> send(shared, words), words -> send(other, words));
        }
    }

    /** Takes, re-enters, resumes, extends, waits for and releases a lock. */
    private static void fromGrantToEnd(Support.Sender client, Support.Sender other) throws Exception {
        String key = UUID.randomUUID().toString();
        String[] acquire = {"LOCK.ACQUIRE", key, "OWNER", "alice", "PX", "30000"};
        List<?> grant = (List<?>) client.send(acquire);
        long fence = (Long) grant.get(1);
        assertGrant(grant, "alice", fence, 1);
        assertGrant(client.send(acquire), "alice", fence, 2);
        // The same owner on another connection: the same grant, without another hold.
        assertGrant(other.send(words(acquire, "ONCE")), "alice", fence, 2);
        assertEquals(60_000L, client.send("LOCK.EXTEND", key, "alice", "EX", "60", "FENCE", "" + fence));
        assertNull(client.send("LOCK.ACQUIRE", key, "OWNER", "bob"));

        var waiting = later(() -> other.send("LOCK.ACQUIRE", key, "OWNER", "bob", "PX", "30000", "BLOCK", "0"));
        Support.waitFor("bob waits", () -> Support.field(client.send("LOCK.INFO", key), "waiters").equals(1L));
        assertEquals(1L, client.send("LOCK.RELEASE", key, "alice", "FENCE", "" + fence));
        assertEquals(0L, client.send("LOCK.RELEASE", key, "alice", "FENCE", "" + fence));
        List<?> next = (List<?>) waiting.get(30, TimeUnit.SECONDS);
        assertTrue((Long) next.get(1) > fence);
        assertGrant(next, "bob", (Long) next.get(1), 1);
        var refused = assertThrows(Exception.class, () -> client.send("LOCK.EXTEND", key, "alice"));
        assertTrue(refused.getMessage().startsWith("NOTHELD "), refused.getMessage());
        assertEquals(0L, client.send("LOCK.RELEASE", key, "bob", "ALL"));
        assertNull(client.send("LOCK.INFO", key));
    }

    private static void assertGrant(Object grant, String owner, long fence, long holds) {
        var list = (List<?>) grant;
        assertEquals(List.of(owner, fence, holds), List.of(Support.text(list.get(0)), list.get(1), list.get(2)));
    }

    private static <T> CompletableFuture<T> later(Callable<T> work) {
        var result = new CompletableFuture<T>();
        var thread = new Thread(() -> {
            try {
                result.complete(work.call());
            } catch (Exception failed) {
                result.completeExceptionally(failed);
            }
        });
        thread.setDaemon(true);
        thread.start();
        return result;
    }

    private static RedisClient jedis(RedisProtocol protocol) {
        var config = DefaultJedisClientConfig.builder().protocol(protocol).socketTimeoutMillis(30_000).build();
        var url = java.net.URI.create(Support.URL);
        return RedisClient.builder().hostAndPort(new HostAndPort(url.getHost(), url.getPort())).clientConfig(config).build();
    }

    private static Object send(StatefulRedisConnection<String, String> connection, String... words) {
        var args = new CommandArgs<>(StringCodec.UTF8);
        for (String word : rest(words)) args.add(word);
        ProtocolKeyword command = words[0]::getBytes;
        List<Object> reply = connection.sync().dispatch(command, new ArrayOutput<>(StringCodec.UTF8), args);
        return reply.size() > 1 ? reply : reply.isEmpty() ? null : reply.get(0);
    }

    private static ProtocolCommand command(String[] words) {
        return words[0]::getBytes;
    }

    private static redis.clients.jedis.CommandArguments words(String[] words) {
        return new redis.clients.jedis.CommandArguments(command(words)).addObjects((Object[]) rest(words));
    }

    private static String[] words(String[] words, String more) {
        String[] all = Arrays.copyOf(words, words.length + 1);
        all[words.length] = more;
        return all;
    }

    private static String[] rest(String[] words) {
        return Arrays.copyOfRange(words, 1, words.length);
    }
}
