import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.function.IntFunction;
import java.util.stream.IntStream;

/**
 * Clients that want locks; benches/compare starts them, and docs/bench.md tells what it counts.
 *
 * <p>{@code Contest contend ADDRESS WHO SECONDS MS}: warms up, says "ready", waits for a line, has 8 clients contend for so long and keep
 * each grant for MS, prints a line for each: when it came and was released, and which client's it was, and is ready again, until its
 * input ends, or a client still waited long after its time. {@code contend-1} is the same with one client, of several JVMs.
 *
 * <p>{@code Contest readers ADDRESS WHO SECONDS} (7 clients read, and the last of 8 writes) and {@code Contest permits ADDRESS WHO
 * SECONDS} (16 clients want one of 10 permits) do the same, but each grant is kept for 1 ms, and the line tells when it came,
 * whose it was, and how long it was waited for. Readers and writers then do something else for 1 ms.
 *
 * <p>{@code Contest two-of-8 ADDRESS WHO SECONDS}: as with permits, but 16 clients want two of 8 locks, others each time.
 * {@code Contest alone ADDRESS WHO SECONDS}, {@code alone-2} and {@code alone-10}: 8 clients take 1, 2 or 10 locks of their own,
 * and give them back at once. With all of these, who still waits 5 s after that time has a line as if it had its grant then.
 *
 * <p>{@code Contest own-8 ADDRESS WHO SECONDS}: 8 tasks of one program, which share a client, take a lock of their own each, and give
 * it back at once. The lines and the end are those of permits.
 *
 * <p>{@code Contest hold ADDRESS WHO KEY}: says "ready", then takes and gives back one lock as the lines "acquire" and "release"
 * say, and prints when it had it, or began to give it back.
 *
 * <p>Times are in ns of the one clock that all processes read: on Linux System.nanoTime() is that.
 */
final class Contest {
    /** How long it contends before it is "ready", in s: so long the JVM compiles what runs often, at our expense. */
    private static final double WARM_UP = 15;
    /** How long a reader, a writer or the holder of a permit keeps its grant, in ns. */
    private static final long KEPT = 1_000_000;
    /** How long a reader or a writer then does something else: else the lock would never be free of readers. */
    private static final long RESTED = 1_000_000;
    /** How often Spring's registry asks, in ns. Who has had its turn waits as long: asking at once, it would nearly always be first. */
    private static final long POLLED = 100_000_000;
    /** How long those are waited for who still wait at the end, in ms. */
    private static final long LONGEST = 5_000;

    private record Grant(long time, long released, long waited) {}

    public static void main(String[] args) throws Exception {
        String mode = args[0], address = args[1], who = args[2];
        var lines = new BufferedReader(new InputStreamReader(System.in));
        if (mode.equals("hold")) {
            hold(Locks.open(who, address, args[3], Locks.Role.SOLE), lines);
        } else {
            // Clients that wait for each other in a circle are not to hold up the start.
            long kept = args.length > 4 ? 1_000_000 * Long.parseLong(args[4]) : 0;
            var warmUp = contest(mode.equals("two-of-8") ? "alone-2" : mode, who, address, kept);
            turn(warmUp, WARM_UP);
            var clients = mode.equals("two-of-8") ? contest(mode, who, address, kept) : warmUp;
            contend(clients, lines, Double.parseDouble(args[3]));
        }
        System.out.flush();
        Runtime.getRuntime().halt(0); // nothing is to be closed first
    }

    /** Clients that contend, how long they keep what they take, and how long they then do something else; in ns. */
    private record Clients(List<Locks> locks, long kept, long rested, boolean waitsCount) {}

    private static Clients contest(String mode, String who, String address, long kept) {
        return switch (mode) {
            case "contend", "contend-1" -> {
                int count = mode.equals("contend") ? 8 : 1;
                yield new Clients(onOne(who, address, Collections.nCopies(count, Locks.Role.SOLE)), kept,
                    who.equals("spring") ? POLLED : 0, false);
            }
            case "permits" -> new Clients(onOne(who, address, Collections.nCopies(16, Locks.Role.PERMIT)), KEPT, 0, true);
            case "readers" -> {
                var roles = new ArrayList<>(Collections.nCopies(7, Locks.Role.READER));
                roles.add(Locks.Role.WRITER);
                yield new Clients(onOne(who, address, roles), KEPT, RESTED, true);
            }
            case "two-of-8" -> {
                var keys = Several.some(2, names("contested", 8));
                yield new Clients(clients(16, client -> Several.open(who, address, keys)), KEPT, 0, true);
            }
            case "alone" -> new Clients(
                clients(8, client -> Locks.open(who, address, "own-" + client, Locks.Role.SOLE)), 0, 0, true);
            case "alone-2" -> new Clients(clients(8, client -> alone(who, address, client, 2)), 0, 0, true);
            case "alone-10" -> new Clients(clients(8, client -> alone(who, address, client, 10)), 0, 0, true);
            case "own-1", "own-8", "own-100" -> {
                var open = Tasks.open(who, address);
                yield new Clients(clients(Integer.parseInt(mode.split("-")[1]), task -> open.apply("own-" + task)), 0, 0, true);
            }
            default -> throw new IllegalArgumentException(mode);
        };
    }

    private static List<Locks> onOne(String who, String address, List<Locks.Role> roles) {
        return clients(roles.size(), client -> Locks.open(who, address, "contested", roles.get(client)));
    }

    private static Locks alone(String who, String address, int client, int count) {
        var keys = names("own-" + client, count);
        return Several.open(who, address, () -> keys);
    }

    private static List<Locks> clients(int count, IntFunction<Locks> open) {
        return IntStream.range(0, count).mapToObj(open).toList();
    }

    private static List<String> names(String prefix, int count) {
        return IntStream.range(0, count).mapToObj(number -> prefix + "-" + number).toList();
    }

    private static void contend(Clients clients, BufferedReader lines, double seconds) throws Exception {
        System.out.println("ready");
        while (lines.readLine() != null) {
            var out = new StringBuilder();
            var turn = turn(clients, seconds);
            for (int client = 0; client < turn.grants.size(); client++) {
                for (var grant : turn.grants.get(client)) {
                    out.append(grant.time).append(' ');
                    if (clients.waitsCount) out.append(client).append(' ').append(grant.waited);
                    else out.append(grant.released).append(' ').append(client);
                    out.append('\n');
                }
            }
            System.out.print(out);
            if (!turn.complete) return;
            System.out.println("ready");
        }
    }

    /** The grants of each client, and whether all clients came to their end. */
    private record Turn(List<List<Grant>> grants, boolean complete) {}

    /** The clients contend in threads of their own. */
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
        /** When it asked for what it has not got yet. */
        private long asked;

        Client(Locks lock, Clients how, long end) {
            this.lock = lock;
            this.how = how;
            this.end = end;
        }

        @Override
        public Void call() {
            while (ask()) {
                lock.acquire();
                granted();
                sleep(how.kept);
                released();
                lock.release();
                sleep(how.rested);
            }
            return null;
        }

        private synchronized boolean ask() {
            long now = System.nanoTime();
            asked = now < end ? now : 0;
            return now < end;
        }

        private synchronized void granted() {
            long now = System.nanoTime();
            grants.add(new Grant(now, now, now - asked));
            asked = 0;
        }

        private synchronized void released() {
            var grant = grants.remove(grants.size() - 1);
            grants.add(new Grant(grant.time, System.nanoTime(), grant.waited));
        }

        synchronized List<Grant> grants() {
            if (asked != 0 && how.waitsCount) granted();
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
