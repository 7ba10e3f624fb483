package redislock;

import static org.junit.jupiter.api.Assertions.assertTrue;

import io.lettuce.core.RedisClient;
import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.codec.StringCodec;
import io.lettuce.core.output.ArrayOutput;
import io.lettuce.core.protocol.CommandArgs;
import io.lettuce.core.protocol.ProtocolKeyword;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Timeout;

/** For each test, the locks on the server of REDIS_URL, a fresh key, and a connection that looks at the server. */
@Timeout(60)
abstract class Support {
    final String key = UUID.randomUUID().toString();
    RedisClient client;
    Locks locks;
    private StatefulRedisConnection<String, String> onlooker;

    @BeforeEach
    void open() {
        String url = System.getenv("REDIS_URL");
        assertTrue(url != null, "REDIS_URL is to name a server with the module: tests/clients/java/run");
        client = RedisClient.create(url);
        locks = new Locks(client);
        onlooker = client.connect();
    }

    @AfterEach
    void close() {
        locks.close();
        client.close();
    }

    List<Object> send(String name, String... words) {
        var args = new CommandArgs<>(StringCodec.UTF8);
        for (String word : words) args.add(word);
        ProtocolKeyword command = name::getBytes;
        return onlooker.sync().dispatch(command, new ArrayOutput<>(StringCodec.UTF8), args);
    }

    void othersHold() {
        send("LOCK.ACQUIRE", key, "OWNER", "others");
    }

    void othersRelease() {
        send("LOCK.RELEASE", key, "others");
    }

    Object info(String field) {
        List<Object> all = send("LOCK.INFO", key);
        int at = all.indexOf(field);
        return at < 0 ? null : all.get(at + 1);
    }

    void untilWaiters(long count) throws InterruptedException {
        until(() -> Long.valueOf(count).equals(info("waiters")));
    }

    void untilFree() throws InterruptedException {
        until(() -> info("owner") == null);
    }

    static void until(BooleanSupplier so) throws InterruptedException {
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(20);
        while (!so.getAsBoolean()) {
            assertTrue(System.nanoTime() < end, "it does not come");
            Thread.sleep(2);
        }
    }

    /** Another thread, and the result of its work. */
    record Other<T>(Thread thread, FutureTask<T> task) {
        static <T> Other<T> does(Callable<T> work) {
            var task = new FutureTask<>(work);
            var thread = new Thread(task);
            thread.setDaemon(true);
            thread.start();
            return new Other<>(thread, task);
        }

        T result() throws Exception {
            return task.get(30, TimeUnit.SECONDS);
        }

        Throwable failure() throws Exception {
            try {
                throw new AssertionError("it did not fail: " + result());
            } catch (ExecutionException failed) {
                return failed.getCause();
            }
        }
    }

    static <T> T inAnotherThread(Callable<T> work) throws Exception {
        return Other.does(work).result();
    }
}
