import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
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
import java.util.concurrent.Callable;
import java.util.function.Consumer;
import java.util.function.Supplier;
import redislock.Held;
import redislock.LockException;
import redislock.LockObserver;
import redislock.Locks;

/** The program of the conformance scenarios. ../core/Bench.java runs a copy inside the package, without a server. */
final class Program {
    static final Gson GSON = new GsonBuilder().serializeNulls().create();
    static Supplier<Long> now = () -> null;
    static Consumer<Words> others = line -> {
        throw new IllegalArgumentException(line.what);
    };

    final Map<String, Task> tasks = new LinkedHashMap<>();
    private AbstractRedisClient client;
    private Locks locks;

    static void say(String event, String task, Map<String, Object> more) {
        var said = new LinkedHashMap<String, Object>(Map.of("event", event));
        said.put("at", now.get());
        if (task != null) said.put("task", task);
        said.putAll(more);
        System.out.println(GSON.toJson(said));
    }

    private static void tell(String what, String task, Throwable error) {
        String event = error instanceof IllegalArgumentException ? "refused" : Words.outcome(error).replace(' ', '_');
        var more = new HashMap<String, Object>(Map.of("what", what, "message", error.toString(), "reason", error.toString()));
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

    final class Task {
        final String name;
        volatile Held held;
        private final Thread wait;

        Task(Words line) {
            name = line.task;
            wait = start(() -> acquire(line));
        }

        private void acquire(Words line) {
            try {
                held = locks.acquire(line.keys == null ? List.of() : line.keys, line::options);
            } catch (InterruptedException | RuntimeException failed) {
                tell("refused", name, failed);
                return;
            }
            var more = new HashMap<String, Object>(Map.of("owner", held.owner(), "fences", held.fences()));
            held.slot().ifPresent(slot -> more.put("slot", slot));
            say("acquired", name, more);
            held.lost().thenAccept(lost -> {
                tell("lost", name, lost);
                try {
                    held.close();
                } catch (RuntimeException told) { // before
                }
            });
        }

        void ask(String event, String failure, Callable<Map<String, Object>> work) {
            start(() -> {
                try {
                    say(event, name, work.call());
                } catch (Exception failed) {
                    tell(failure, name, failed);
                }
            });
        }

        void release(String event) {
            ask(event, "not released", () -> {
                held.close();
                return Map.of();
            });
        }

        void extend(Long lease) {
            ask("extended", "not extended",
                () -> Map.of("lease", (lease == null ? held.extend() : held.extend(Duration.ofMillis(lease))).toMillis()));
        }
    }

    private static Thread start(Runnable work) {
        var thread = new Thread(work);
        thread.start();
        return thread;
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
        if (client != null) client.shutdown(0, 2, java.util.concurrent.TimeUnit.SECONDS);
    }

    void obey(Words line) {
        var task = tasks.get(line.task);
        switch (line.what) {
            case "open" -> {
                tasks.clear();
                if (line.urls != null) connect(line);
                locks = new Locks(client, line.observe ? new Tells() : null);
                say("opened", null, Map.of());
            }
            case "close" -> {
                close();
                say("closed", null, Map.of());
            }
            case "acquire" -> tasks.put(line.task, new Task(line));
            case "release" -> task.release("released");
            case "cancel" -> {
                if (task.held != null) task.release("cancelled");
                else task.wait.interrupt();
            }
            case "extend" -> task.extend(line.lease);
            case "check" -> task.held.isHeld();
            default -> others.accept(line);
        }
    }

    public static void main(String[] args) throws Exception {
        var program = new Program();
        var lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = lines.readLine()) != null;) program.obey(GSON.fromJson(line, Words.class));
        program.close();
        System.exit(0);
    }
}
