package redislock;

import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import com.google.gson.JsonArray;
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
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Delayed;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.RejectedExecutionHandler;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.Semaphore;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.Consumer;
import java.util.function.Function;
import java.util.function.Predicate;

/**
 * Replays traces with the core of the package, without a server. ../../driver/traces.py sets the clock, and describes the lines. The package
 * is a copy: {@link Turn} is its clock and has its threads; the other classes here replace some of the JDK's, and the connections.
 */
final class Replay {
    private static final Gson GSON = new GsonBuilder().serializeNulls().create();
    private static final List<Object> lines = new ArrayList<>();

    /** An acquire of the trace. */
    private static final class Acquire {
        final Request request;
        final Turn turn = Turn.current();
        Held held;
        long until; // ms until which it was last reported as held; 0: not held

        Acquire(Request request) {
            this.request = request;
        }
    }

    private final Core core = new Core(null, null);
    private final List<Acquire> acquires = new ArrayList<>();

    static void tell(Object... said) {
        var line = new ArrayList<Object>(List.of(Turn.ms()));
        line.addAll(Arrays.asList(said));
        lines.add(line);
    }

    private void acquire(Words wanted) {
        var acquire = new Acquire(new Request(wanted.keys, wanted::options));
        acquires.add(acquire);
        int number = acquires.size();
        tell("owner", number, acquire.request.owner);
        try {
            Held held = acquire.held = core.acquire(acquire.request, true);
            tell("acquired", number, held.fences(), held.slot().isPresent() ? held.slot().getAsInt() : null);
            held.lost().thenAccept(why -> {
                tell("lost", number, Words.outcome(why));
                release(acquire);
            });
        } catch (InterruptedException | RuntimeException why) {
            tell("refused", number, Words.outcome(why));
        }
    }

    private static void release(Acquire acquire) {
        try {
            acquire.held.close();
        } catch (RuntimeException lost) { // it was reported before
        }
    }

    private void asked(JsonArray line, String done, Function<Held, List<Object>> work) {
        int number = line.get(2).getAsInt();
        try {
            var said = new ArrayList<Object>(List.of(done, number));
            said.addAll(work.apply(of(line).held));
            tell(said.toArray());
        } catch (RuntimeException why) {
            tell("not " + done, number, Words.outcome(why));
        }
    }

    private Acquire of(JsonArray line) {
        return acquires.get(line.get(2).getAsInt() - 1);
    }

    private void call(String what, JsonArray line) {
        switch (what) {
            case "subscribed" -> core.connections.subscribed();
            case "heard" -> core.connections.hear.accept(line.get(2).getAsString());
            case "answer" -> core.connections.answer(line.get(2).getAsInt(), line.get(3));
            case "acquire" -> acquire(GSON.fromJson(line.get(2), Words.class));
            case "extend" -> asked(line, "extended", held -> {
                boolean same = line.get(3).isJsonNull();
                return List.of((same ? held.extend() : held.extend(Duration.ofMillis(line.get(3).getAsLong()))).toMillis());
            });
            case "check" -> of(line).held.isHeld();
            case "release" -> asked(line, "released", held -> {
                held.close();
                return List.of();
            });
            case "cancel" -> of(line).turn.interrupt();
            case "close" -> core.close();
            case "time" -> { }
            default -> throw new IllegalArgumentException(what);
        }
    }

    private void step(JsonArray line) {
        Turn.set(line.get(0).getAsLong());
        String what = line.get(1).getAsString();
        Turn.start(() -> call(what, line));
        Turn.settle();
        for (Acquire acquire : acquires) {
            boolean holds = acquire.held != null && acquire.held.state == Held.State.HELD;
            boolean ends = holds && acquire.held.until - Turn.now() < Core.LONG / 2;
            long until = ends ? Math.round(acquire.held.until / 1e6) : holds ? -1 : 0;
            int number = acquires.indexOf(acquire) + 1;
            if (holds && until != acquire.until) tell("believes", number, ends ? until : null);
            if (what.equals("close") && acquire.until != 0) tell("lost", number, "closed"); // Held.isHeld tells the holder
            acquire.until = until;
        }
        long next = Turn.next();
        lines.add(Arrays.asList("next", next < Core.LONG / 2 ? (next + 999_999) / 1_000_000 : null));
        for (Object each : lines) System.out.println(GSON.toJson(each));
        System.out.flush();
        lines.clear();
    }

    public static void main(String[] given) throws Exception {
        var input = new BufferedReader(new InputStreamReader(System.in));
        Replay replay = null;
        for (String line; (line = input.readLine()) != null;) {
            JsonArray said = GSON.fromJson(line, JsonArray.class);
            if (said.get(0).getAsJsonPrimitive().isString()) {
                Turn.forget();
                replay = new Replay();
            } else {
                replay.step(said);
            }
        }
        System.exit(0);
    }
}

/** A thread of the package. Only one thread runs at a time, until it waits. */
final class Turn {
    private static final List<Turn> all = new ArrayList<>();
    private static final Semaphore rests = new Semaphore(0); // released when the running thread waits
    private static Turn current;
    private static long now;

    private final Semaphore turn = new Semaphore(0);
    private final Thread thread;
    private long due;
    private boolean over;

    private Turn(Runnable work) {
        thread = new Thread(() -> {
            turn.acquireUninterruptibly();
            due = Core.LONG;
            work.run();
            over = true;
            rests.release();
        });
        thread.setDaemon(true);
        thread.start();
    }

    static void start(Runnable work) {
        all.add(0, new Turn(work));
    }

    static void forget() {
        all.clear();
        ScheduledThreadPoolExecutor.all.clear();
    }

    static Turn current() {
        return current;
    }

    static void set(long ms) {
        now = TimeUnit.MILLISECONDS.toNanos(ms);
    }

    static long now() {
        return now;
    }

    static long ms() {
        return TimeUnit.NANOSECONDS.toMillis(now);
    }

    /** When the next timer is due. */
    static long next() {
        long next = Core.LONG;
        for (Turn each : all) next = Math.min(next, each.due);
        for (var each : ScheduledThreadPoolExecutor.all) next = Math.min(next, each.due);
        return next;
    }

    /** Runs threads and timers until nothing more can be done now. */
    static void settle() {
        for (int turns = 0; next() <= now; turns++) {
            if (turns > 10_000) throw new IllegalStateException("it never comes to rest");
            current = all.stream().filter(each -> each.due <= now).findFirst().orElse(null);
            if (current == null) {
                ScheduledThreadPoolExecutor.all.stream().filter(each -> each.due <= now).findFirst().orElseThrow().run();
                continue;
            }
            current.turn.release();
            rests.acquireUninterruptibly();
            if (current.over) all.remove(current);
        }
    }

    void wake() {
        due = now;
    }

    void interrupt() {
        thread.interrupt();
        wake();
    }

    static void wake(Thread waiter) {
        for (Turn each : all) {
            if (each.thread == waiter) each.wake();
        }
    }

    static void rest(long until) {
        Turn mine = current;
        if (mine.due > now) { // otherwise, it was woken before
            mine.due = until;
            rests.release();
            mine.turn.acquireUninterruptibly();
        }
        mine.due = Core.LONG;
    }

    /** Replaces {@link CompletableFuture#get(long, TimeUnit)}. */
    static void get(CompletableFuture<?> done, long most) throws InterruptedException, ExecutionException, TimeoutException {
        Turn mine = current;
        long end = now + most;
        done.whenComplete((reply, error) -> mine.wake());
        while (!done.isDone()) {
            if (Thread.interrupted()) throw new InterruptedException();
            if (end <= now) throw new TimeoutException();
            rest(end);
        }
        done.get();
    }
}

/** Replaces the JDK's class, and uses the replay's clock. */
final class LockSupport {
    static void parkNanos(Object blocker, long most) {
        if (!Thread.currentThread().isInterrupted()) Turn.rest(Turn.now() + most);
    }

    static void unpark(Thread thread) {
        Turn.wake(thread);
    }
}

/** Replaces the JDK's class, and uses the replay's clock. */
final class ScheduledThreadPoolExecutor extends java.util.concurrent.ScheduledThreadPoolExecutor {
    static final List<Work> all = new ArrayList<>();

    static final class Work extends CompletableFuture<Void> implements ScheduledFuture<Void>, Runnable {
        final long due;
        private final Runnable work;

        Work(Runnable work, long pause) {
            this.work = work;
            due = Turn.now() + pause;
            all.add(this);
        }

        @Override
        public void run() {
            all.remove(this);
            work.run();
        }

        @Override
        public boolean cancel(boolean interrupt) {
            return all.remove(this);
        }

        @Override
        public long getDelay(TimeUnit unit) {
            return unit.convert(due - Turn.now(), TimeUnit.NANOSECONDS);
        }

        @Override
        public int compareTo(Delayed other) {
            return Long.compare(getDelay(TimeUnit.NANOSECONDS), other.getDelay(TimeUnit.NANOSECONDS));
        }
    }

    private boolean ended;

    ScheduledThreadPoolExecutor(int threads, ThreadFactory factory, RejectedExecutionHandler rejected) {
        super(threads, factory, rejected);
    }

    @Override
    public ScheduledFuture<?> schedule(Runnable work, long pause, TimeUnit unit) {
        var planned = new Work(work, unit.toNanos(pause));
        if (ended) planned.cancel(false);
        return planned;
    }

    @Override
    public ScheduledFuture<?> scheduleAtFixedRate(Runnable work, long first, long pause, TimeUnit unit) {
        return schedule(() -> {
            work.run();
            scheduleAtFixedRate(work, pause, pause, unit);
        }, first, unit);
    }

    @Override
    public void execute(Runnable work) {
        schedule(work, 0, TimeUnit.NANOSECONDS);
    }

    @Override
    public void shutdown() {
        ended = true;
        all.clear();
    }
}

/** Replaces the connections: commands wait for the trace's answers, and the subscription is confirmed when the trace says so. */
final class Connections {
    final Consumer<String> hear;
    private final Consumer<String> doubt;
    private final CompletableFuture<Void> ready = new CompletableFuture<>();
    private final List<CompletableFuture<Object>> sent = new ArrayList<>();

    Connections(AbstractRedisClient client, String channel, Consumer<String> hear, Consumer<String> doubt, Predicate<String> needs, Runnable ended) {
        this.hear = hear;
        this.doubt = doubt;
    }

    static Thread daemon(String name, Runnable work) {
        return new Thread(work, name);
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
            if (session) Replay.tell("send", sent.size(), text.toString(), "session");
            else Replay.tell("send", sent.size(), text.toString());
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
