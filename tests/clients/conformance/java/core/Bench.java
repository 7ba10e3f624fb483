package redislock;

import com.google.gson.JsonElement;
import io.lettuce.core.AbstractRedisClient;
import io.lettuce.core.RedisCommandExecutionException;
import io.lettuce.core.RedisCommandTimeoutException;
import io.lettuce.core.RedisException;
import io.netty.buffer.Unpooled;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Semaphore;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.Consumer;
import java.util.function.Predicate;

/**
 * The core of the package without a server: its clock, threads and connections do as ../../driver/traces.py says. The package is a copy, in
 * which the other classes here replace some of the JDK's, and the connections.
 */
final class Bench {
    private static final Map<String, Long> believed = new HashMap<>(); // ms until which a task was last reported as held; -1: for ever

    private static void others(Words line) {
        switch (line.what) {
            case "subscribed" -> Connections.last.subscribed();
            case "heard" -> Connections.last.hear.accept(line.message);
            case "answer" -> Connections.last.answer(line.command, line.reply);
            default -> { } // time
        }
    }

    private static Map<String, Object> until(Long ms) {
        var more = new HashMap<String, Object>();
        more.put("until", ms);
        return more;
    }

    /** Carries out a command. Then says what nobody is told: owners, leases that have changed, and when the first timer is due. */
    private static void step(Program program, Words line) {
        Thread.now = TimeUnit.MILLISECONDS.toNanos(line.at);
        if (line.what.equals("open")) {
            Thread.all.clear();
            believed.clear();
        }
        new Thread(() -> program.obey(line)).start();
        Thread.settle();
        if (line.what.equals("acquire")) Program.say("owner", line.task, Map.of("owner", line.owner == null ? UUID.last : line.owner));
        program.tasks.forEach((name, task) -> {
            boolean holds = task.held != null && task.held.state == Held.State.HELD;
            boolean ends = holds && task.held.until - Thread.now < Core.LONG / 2;
            Long until = ends ? Long.valueOf(Math.round(task.held.until / 1e6)) : holds ? Long.valueOf(-1) : null;
            Long before = holds ? believed.put(name, until) : believed.remove(name);
            if (holds && !until.equals(before)) Program.say("believes", name, until(ends ? until : null));
            // If no other loss came first, Held.isHeld tells the holder of this.
            if (line.what.equals("close") && before != null && !task.held.lost.isDone()) Program.say("lost", name, Map.of("what", "lost"));
        });
        long next = Thread.all.stream().mapToLong(each -> each.due).min().orElse(Core.LONG);
        Program.say("next", null, until(next < Core.LONG / 2 ? (next + 999_999) / 1_000_000 : null));
    }

    public static void main(String[] given) throws Exception {
        Program.now = () -> TimeUnit.NANOSECONDS.toMillis(Thread.now);
        Program.others = Bench::others;
        var program = new Program();
        var lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = lines.readLine()) != null;) step(program, Program.GSON.fromJson(line, Words.class));
        System.exit(0);
    }
}

/** Replaces the JDK's class. Only one thread runs at a time, until it waits. */
class Thread extends java.lang.Thread {
    static final List<Thread> all = new ArrayList<>();
    private static final Semaphore rests = new Semaphore(0); // released when the running thread waits
    static long now;

    private final Semaphore turn = new Semaphore(0);
    private boolean begun;
    long due;

    Thread(Runnable work) {
        super(work);
        setDaemon(true);
    }

    public static Thread currentThread() {
        return (Thread) java.lang.Thread.currentThread();
    }

    @Override
    public void start() {
        start(now);
    }

    void start(long due) {
        this.due = due;
        all.add(0, this);
    }

    @Override
    public void run() {
        due = Core.LONG;
        try {
            super.run();
        } finally {
            all.remove(this);
            rests.release();
        }
    }

    @Override
    public void interrupt() {
        super.interrupt();
        due = now;
    }

    /** Runs threads and timers until nothing more can be done now. */
    static void settle() {
        for (int turns = 0;; turns++) {
            Thread next = all.stream().filter(each -> each.due <= now).findFirst().orElse(null);
            if (next == null) return;
            if (turns > 10_000) throw new IllegalStateException("it never comes to rest");
            if (next.begun) next.turn.release();
            else next.begin();
            rests.acquireUninterruptibly();
        }
    }

    private void begin() {
        begun = true;
        super.start();
    }

    static void rest(long until) {
        Thread mine = currentThread();
        if (mine.due > now) { // otherwise, it was woken before
            mine.due = until;
            rests.release();
            mine.turn.acquireUninterruptibly();
        }
        mine.due = Core.LONG;
    }

    /** Replaces {@link CompletableFuture#get(long, TimeUnit)}. */
    static void get(CompletableFuture<?> done, long most) throws InterruptedException, ExecutionException, TimeoutException {
        Thread mine = currentThread();
        long end = now + most;
        done.whenComplete((reply, error) -> mine.due = now);
        while (!done.isDone()) {
            if (interrupted()) throw new InterruptedException();
            if (end <= now) throw new TimeoutException();
            rest(end);
        }
        done.get();
    }
}

/** Replaces the JDK's class. */
final class LockSupport {
    static void parkNanos(Object blocker, long most) {
        if (!Thread.currentThread().isInterrupted()) Thread.rest(Thread.now + most);
    }

    static void unpark(Thread waiter) {
        if (waiter != null) waiter.due = Thread.now;
    }
}

/** Replaces the JDK's class. */
final class UUID {
    static String last = "0";

    static String randomUUID() {
        return last = String.valueOf(Long.parseLong(last) + 1);
    }
}

/** Replaces the JDK's class: a timer is a thread that starts when it is due. */
final class ScheduledFuture<V> extends Thread {
    ScheduledFuture(Runnable work) {
        super(work);
    }

    boolean cancel(boolean interrupt) {
        return all.remove(this);
    }
}

/** Replaces the JDK's class. */
final class ScheduledThreadPoolExecutor {
    record DiscardPolicy() {}

    private boolean ended;

    ScheduledThreadPoolExecutor(int threads, ThreadFactory factory, DiscardPolicy rejected) {}

    void setRemoveOnCancelPolicy(boolean removes) {}

    void setExecuteExistingDelayedTasksAfterShutdownPolicy(boolean executes) {}

    ScheduledFuture<?> schedule(Runnable work, long pause, TimeUnit unit) {
        var planned = new ScheduledFuture<Void>(work);
        if (!ended) planned.start(Thread.now + unit.toNanos(pause));
        return planned;
    }

    void execute(Runnable work) {
        schedule(work, 0, TimeUnit.NANOSECONDS);
    }

    void shutdown() {
        ended = true;
        Thread.all.removeIf(ScheduledFuture.class::isInstance);
    }
}

/** Replaces the connections: commands wait for the trace's answers, and the subscription is confirmed when the trace says so. */
final class Connections {
    static Connections last;
    final Consumer<String> hear;
    private final Consumer<String> doubt;
    private final CompletableFuture<Void> ready = new CompletableFuture<>();
    private final List<CompletableFuture<Object>> sent = new ArrayList<>();

    Connections(AbstractRedisClient client, String channel, Consumer<String> hear, Consumer<String> doubt, Predicate<String> needs, Runnable ended) {
        last = this;
        this.hear = hear;
        this.doubt = doubt;
    }

    static Thread daemon(String name, Runnable work) {
        return new Thread(work);
    }

    CompletableFuture<Object> send(Request.Words words, boolean session) {
        return ready.thenCompose(ready -> {
            words.begin();
            var answer = new CompletableFuture<Object>();
            sent.add(answer);
            var encoded = Unpooled.buffer();
            words.args.encode(encoded);
            var text = new StringBuilder(words.name.toString());
            String[] parts = encoded.toString(StandardCharsets.UTF_8).split("\r\n"); // each word follows its length
            for (int at = 1; at < parts.length; at += 2) text.append(' ').append(parts[at]);
            Program.say("sent", null, Map.of("command", sent.size(), "words", text.toString(), "session", session));
            return answer;
        });
    }

    int breaks() {
        return 0;
    }

    Duration patience() {
        return Duration.ofNanos(Core.LONG);
    }

    void close() {
    }

    void subscribed() {
        if (!ready.complete(null)) doubt.accept(null);
    }

    void answer(int number, JsonElement reply) {
        var answer = sent.get(number - 1);
        if (!reply.isJsonObject()) {
            answer.complete(plain(reply));
            return;
        }
        JsonElement said = reply.getAsJsonObject().get("error");
        JsonElement none = reply.getAsJsonObject().get("no answer");
        answer.completeExceptionally(said != null ? new RedisCommandExecutionException(said.getAsString())
            : none.getAsString().equals("silence") ? new RedisCommandTimeoutException("no answer") : new RedisException("no answer"));
    }

    private static Object plain(JsonElement reply) {
        if (reply.isJsonNull()) return null;
        if (reply.isJsonArray()) {
            var all = new ArrayList<Object>();
            reply.getAsJsonArray().forEach(each -> all.add(plain(each)));
            return all;
        }
        return reply.getAsJsonPrimitive().isNumber() ? (Object) reply.getAsLong() : reply.getAsString();
    }
}
