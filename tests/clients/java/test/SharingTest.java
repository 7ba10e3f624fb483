import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.lettuce.core.RedisClient;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.UUID;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import redis.clients.jedis.Jedis;
import redislock.Locks;

/** Readers and writers, n at a time: the package with many threads at once. */
@Timeout(120)
class SharingTest {
    private static final int READERS = 100, WRITERS = 5, WORKERS = 200, LIMIT = 10;
    private final String key = UUID.randomUUID().toString();
    private final redis.clients.jedis.RedisClient jedis = redis.clients.jedis.RedisClient.create(Support.URL);
    private final RedisClient client = RedisClient.create(Support.URL);
    private final Locks locks = new Locks(client);

    @TempDir
    Path folder;

    @AfterEach
    void end() {
        locks.close();
        client.close();
        jedis.close();
    }

    /** Whoever reads while somebody writes sees it: by a count of who is inside, and by a file that is written in two steps. */
    private final class Book {
        final Path path = folder.resolve("book");
        int reading, writing, most, written;

        synchronized void enter(boolean writes) {
            assertEquals(0, writing, "one writes already");
            if (writes) assertEquals(0, reading, "some read already");
            if (writes) writing++;
            else most = Math.max(most, ++reading);
        }

        synchronized void leave(boolean writes) {
            if (writes) assertEquals(0, reading, "some read beside it");
            assertEquals(writes ? 1 : 0, writing, "another one writes beside it");
            if (writes) writing--;
            else reading--;
        }

        void read() throws Exception {
            enter(false);
            Thread.sleep(20);
            var words = Files.readString(path).split(" ");
            assertEquals(2, words.length);
            assertEquals(words[0], words[1]);
            leave(false);
        }

        void write() throws Exception {
            enter(true);
            written++;
            Files.writeString(path, written + " ");
            Thread.sleep(1); // the others' chance
            Files.writeString(path, written + " " + written);
            leave(true);
        }
    }

    @Test
    void aHundredThreadsReadAndFiveWrite() throws Exception {
        var book = new Book();
        book.write();
        Support.inThreads(WRITERS + READERS, number -> {
            for (int round = 0; round < 4; round++) {
                if (number < WRITERS) {
                    try (var held = locks.acquire(key)) {
                        book.write();
                    }
                } else {
                    try (var held = locks.acquire(key, o -> o.shared())) {
                        book.read();
                    }
                }
            }
        });
        assertEquals(1 + 4 * WRITERS, book.written);
        assertTrue(book.most > 2, "readers together: " + book.most);
    }

    @Test
    void twoHundredThreadsShareTenPermitsAndSomeHoldersAreKilled() throws Exception {
        var lost = new ArrayList<Jedis>();
        var ids = new ArrayList<Long>();
        for (int at = 0; at < 5; at++) {
            var connection = new Jedis(URI.create(Support.URL));
            connection.sendCommand("LOCK.ACQUIRE"::getBytes, key, "OWNER", "lost" + at, "LIMIT", "" + LIMIT, "SESSION");
            lost.add(connection);
            ids.add(connection.clientId());
        }
        var inside = new AtomicInteger();
        var most = new AtomicInteger();
        var served = new AtomicInteger();
        Support.inThreads(WORKERS, number -> {
            try (var held = locks.acquire(key, o -> o.limit(LIMIT))) {
                most.accumulateAndGet(inside.incrementAndGet(), Math::max);
                Thread.sleep(20);
                inside.decrementAndGet();
                if (served.incrementAndGet() == 20) {
                    for (long id : ids) assertEquals(1L, jedis.sendCommand("CLIENT"::getBytes, "KILL", "ID", "" + id));
                }
            }
        });
        assertEquals(WORKERS, served.get());
        assertTrue(most.get() <= LIMIT && most.get() > 2, "at a time: " + most);
        Support.waitFor("all permits are given back", () -> !jedis.exists(key));
        for (var connection : lost) connection.close();
    }
}
