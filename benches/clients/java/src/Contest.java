import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.stream.IntStream;
import java.util.stream.Stream;

/**
 * Clients that want locks; benches/compare starts them, and docs/bench.md tells what it counts.
 *
 * <p>{@code Contest contend ADDRESS WHO SECONDS MS}: warms up, says "ready", waits for a line, has 8 clients contend for so long and keep
 * each grant for MS, prints a line for each: when it came and was released, and which client's it was, and is ready again, until its
 * input ends, or a client still waited long after its time. {@code contend-1} is the same with one client, of several JVMs.
 *
 * <p>{@code Contest own ADDRESS WHO SECONDS MS}: the same with 100 tasks of one program, which share a client, and take a lock of their own
 * each.
 *
 * <p>{@code Contest hold ADDRESS WHO KEY}: says "ready", then takes and gives back one lock as the lines "acquire" and "release"
 * say, and prints when it had it, or began to give it back.
 *
 * <p>Times are in ns of the one clock that all processes read: on Linux System.nanoTime() is that.
 */
final class Contest {
    /** How long it contends before it is "ready", in s, so that the JVM has compiled the hot code before we measure. */
    private static final double WARM_UP = 15;
    /** How often Spring's registry asks, in ns. A client waits as long after its turn: if it asked at once, it would nearly always be
     * first. */
    private static final long POLLED = 100_000_000;
    /** How long, in ms, the program waits at its end for clients that still wait for the lock. */
    private static final long LONGEST = 5_000;

    private record Grant(long time, long released) {}

    public static void main(String[] args) throws Exception {
        String mode = args[0], address = args[1], who = args[2];
        var lines = new BufferedReader(new InputStreamReader(System.in));
        if (mode.equals("hold")) {
            hold(Locks.open(who, address, args[3]), lines);
        } else {
            var clients = contest(mode, who, address, 1_000_000 * Long.parseLong(args[4]));
            turn(clients, WARM_UP);
            contend(clients, lines, Double.parseDouble(args[3]));
        }
        System.out.flush();
        Runtime.getRuntime().halt(0); // nothing is to be closed first
    }

    /** Clients that contend, how long they keep the lock, and how long they pause after they have released it; in ns. */
    private record Clients(List<Locks> locks, long kept, long rested) {}

    private static Clients contest(String mode, String who, String address, long kept) {
        if (mode.equals("own")) {
            var open = Tasks.open(who, address);
            return new Clients(IntStream.range(0, 100).mapToObj(task -> open.apply("own-" + task)).toList(), kept, 0);
        }
        var locks = Stream.generate(() -> Locks.open(who, address, "contested")).limit(mode.equals("contend") ? 8 : 1).toList();
        return new Clients(locks, kept, who.equals("spring") ? POLLED : 0);
    }

    private static void contend(Clients clients, BufferedReader lines, double seconds) throws Exception {
        System.out.println("ready");
        while (lines.readLine() != null) {
            var out = new StringBuilder();
            var turn = turn(clients, seconds);
            for (int client = 0; client < turn.grants.size(); client++) {
                for (var grant : turn.grants.get(client)) {
                    out.append(grant.time).append(' ').append(grant.released).append(' ').append(client).append('\n');
                }
            }
            System.out.print(out);
            if (!turn.complete) return;
            System.out.println("ready");
        }
    }

    /** The grants of each client, and whether all clients have finished. */
    private record Turn(List<List<Grant>> grants, boolean complete) {}

    /** Each client contends in a thread of its own. */
    private static Turn turn(Clients clients, double seconds) throws Exception {
        long end = System.nanoTime() + (long) (seconds * 1e9);
        var all = clients.locks.stream().map(lock -> new Client(lock, clients, end)).toList();
        var threads = Executors.newFixedThreadPool(all.size());
        var done = threads.invokeAll(all, (long) (seconds * 1000) + LONGEST, TimeUnit.MILLISECONDS);
        for (var task : done) if (!task.isCancelled()) task.get();
        threads.shutdown();
        return new Turn(all.stream().map(Client::grants).toList(), done.stream().noneMatch(Future::isCancelled));
    }

    /** Takes its lock and gives it back, until the end. */
    private static final class Client implements Callable<Void> {
        private final Locks lock;
        private final Clients how;
        private final long end;
        private final List<Grant> grants = new ArrayList<>();

        Client(Locks lock, Clients how, long end) {
            this.lock = lock;
            this.how = how;
            this.end = end;
        }

        @Override
        public Void call() {
            while (System.nanoTime() < end) {
                lock.acquire();
                long granted = System.nanoTime();
                sleep(how.kept);
                add(new Grant(granted, System.nanoTime()));
                lock.release();
                sleep(how.rested);
            }
            return null;
        }

        private synchronized void add(Grant grant) {
            grants.add(grant);
        }

        /** A copy, because a client that still waits may get another grant meanwhile. */
        synchronized List<Grant> grants() {
            return List.copyOf(grants);
        }
    }

    private static void sleep(long length) {
        long end = System.nanoTime() + length;
        for (long left = length; left > 0; left = end - System.nanoTime()) LockSupport.parkNanos(left);
    }

    private static void hold(Locks lock, BufferedReader lines) throws IOException {
        System.out.println("ready");
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            if (line.equals("acquire")) {
                lock.acquire();
                System.out.println(System.nanoTime());
            } else {
                System.out.println(System.nanoTime());
                lock.release();
            }
        }
    }
}
