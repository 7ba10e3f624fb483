import com.google.gson.Gson;
import io.lettuce.core.AbstractRedisClient;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisURI;
import io.lettuce.core.cluster.RedisClusterClient;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.URI;
import java.time.Duration;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import redislock.Held;
import redislock.LockException;
import redislock.LockObserver;
import redislock.Locks;

/** The program of the conformance scenarios. */
final class Program {
    private static final Gson GSON = new Gson();

    private final Map<String, Task> tasks = new ConcurrentHashMap<>();
    private AbstractRedisClient client;
    private Locks locks;

    private static void say(String event, String task, Map<String, Object> more) {
        var said = new LinkedHashMap<String, Object>(Map.of("event", event));
        if (task != null) said.put("task", task);
        said.putAll(more);
        System.out.println(GSON.toJson(said));
    }

    private static void tell(String task, Throwable error) {
        String outcome = Words.outcome(error);
        String event = error instanceof IllegalArgumentException ? "refused" : outcome.equals("closed") ? "cancelled" : outcome.replace(' ', '_');
        var more = new HashMap<String, Object>(Map.of("message", error.toString(), "reason", error.toString()));
        if (error instanceof LockException.Deadlock deadlock) more.put("cycle", deadlock.cycle());
        if (event.equals("error")) error.printStackTrace();
        say(event, task, more);
    }

    private static final class Tells implements LockObserver {
        private static void tell(String event, List<String> keys, Mode mode, Duration time, String more, String reason) {
            String what = event + " " + String.join(",", keys) + " " + mode.name().toLowerCase(java.util.Locale.ROOT) + more;
            say("observed", null, Map.of("what", what, "ms", time.toMillis(), "reason", reason));
        }

        @Override
        public void waiting(List<String> keys, Mode mode) {
            tell("waiting", keys, mode, Duration.ZERO, "", "");
        }

        @Override
        public void acquired(List<String> keys, Mode mode, Duration waited, long fence) {
            tell("acquired", keys, mode, waited, "", "");
        }

        @Override
        public void refused(List<String> keys, Mode mode, Duration waited, Outcome outcome, Exception reason) {
            tell("refused", keys, mode, waited, " " + outcome.name().toLowerCase(java.util.Locale.ROOT), "");
        }

        @Override
        public void released(List<String> keys, Mode mode, Duration held) {
            tell("released", keys, mode, held, "", "");
        }

        @Override
        public void lost(List<String> keys, Mode mode, Duration held, LockException.Lost reason) {
            tell("lost", keys, mode, held, "", reason.reason());
        }
    }

    /** A thread that acquires and holds a lock, until a command or a loss ends this. */
    private final class Task implements Runnable {
        final Words line;
        final CompletableFuture<String> over = new CompletableFuture<>();
        final CompletableFuture<Held> held = new CompletableFuture<>();
        Thread thread;

        Task(Words line) {
            this.line = line;
        }

        @Override
        public void run() {
            String said;
            try (Held held = locks.acquire(line.keys == null ? List.of() : line.keys, line::options)) {
                this.held.complete(held);
                held.lost().thenAccept(over::completeExceptionally);
                var more = new HashMap<String, Object>(Map.of("owner", held.owner(), "fences", held.fences()));
                held.slot().ifPresent(slot -> more.put("slot", slot));
                say("acquired", line.task, more);
                try {
                    said = over.get();
                } catch (InterruptedException stopped) {
                    said = "cancelled";
                } catch (ExecutionException lost) {
                    tell(line.task, lost.getCause());
                    said = null;
                }
            } catch (Exception failed) {
                if (!over.isCompletedExceptionally()) tell(line.task, failed);
                return;
            }
            if (said != null) say(said, line.task, Map.of());
        }
    }

    private Thread start(Runnable work) {
        var thread = new Thread(work);
        thread.start();
        return thread;
    }

    private void open(Words line) {
        try {
            connect(line);
            locks = line.observe ? new Locks(client, new Tells()) : new Locks(client);
            say("opened", null, Map.of());
        } catch (RuntimeException failed) {
            tell(null, failed);
        }
    }

    private void connect(Words line) {
        var urls = line.urls.stream().map(RedisURI::create).toList();
        if (line.kind.equals("cluster")) {
            client = RedisClusterClient.create(urls);
        } else {
            RedisURI url = urls.get(0);
            if (line.kind.equals("sentinel")) {
                var sentinels = RedisURI.builder();
                for (String each : line.urls) sentinels.withSentinel(URI.create(each).getHost(), URI.create(each).getPort());
                url = sentinels.withSentinelMasterId(line.service).build();
            }
            client = RedisClient.create(url);
        }
    }

    private void close() {
        if (locks == null) return;
        locks.close();
        client.shutdown(0, 2, java.util.concurrent.TimeUnit.SECONDS);
        locks = null;
    }

    private void extend(Words line) {
        try {
            Duration given = tasks.get(line.task).held.get().extend(Duration.ofMillis(line.lease));
            say("extended", line.task, Map.of("lease", given.toMillis()));
        } catch (Exception failed) {
            tell(line.task, failed);
        }
    }

    private void carryOut(String word, Words line) {
        switch (word) {
            case "open" -> open(line);
            case "close" -> {
                close();
                say("closed", null, Map.of());
            }
            case "acquire" -> {
                var task = new Task(line);
                tasks.put(line.task, task);
                task.thread = start(task);
            }
            case "release" -> tasks.get(line.task).over.complete("released");
            case "cancel" -> tasks.get(line.task).thread.interrupt();
            case "extend" -> start(() -> extend(line));
            default -> throw new IllegalArgumentException(word);
        }
    }

    public static void main(String[] args) throws Exception {
        var program = new Program();
        var lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = lines.readLine()) != null;) {
            program.carryOut((String) GSON.fromJson(line, Map.class).get("do"), GSON.fromJson(line, Words.class));
        }
        program.close();
        System.exit(0);
    }
}
