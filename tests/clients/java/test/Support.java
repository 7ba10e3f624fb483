import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import redis.clients.jedis.util.KeyValue;

/** What both clients' tests share: a client as something that sends words, and waiting. */
final class Support {
    static final String URL = System.getenv("REDIS_URL");

    /** The reply as the client gives it; a client that waits is given a connection of its own. */
    interface Sender {
        Object send(String... words) throws Exception;
    }

    interface Work {
        void run(int number) throws Exception;
    }

    /** So many threads, all at once. */
    static void inThreads(int count, Work work) throws Exception {
        var started = new ArrayList<FutureTask<Void>>();
        for (int at = 0; at < count; at++) {
            int number = at;
            var task = new FutureTask<Void>(() -> {
                work.run(number);
                return null;
            });
            started.add(task);
            var thread = new Thread(task);
            thread.setDaemon(true);
            thread.start();
        }
        for (var task : started) task.get(60, TimeUnit.SECONDS);
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
