import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.Executors;
import java.util.concurrent.locks.LockSupport;

/**
 * Clients that want one lock; benches/compare starts them, and docs/bench.md tells what it counts.
 *
 * <p>{@code Contest contend ADDRESS WHO SECONDS}: says "ready", waits for a line, has 8 clients contend for so long, and prints
 * a line for each grant: when it came, and which client's it was.
 *
 * <p>{@code Contest readers ADDRESS WHO SECONDS} (7 clients read, and the last of 8 writes) and {@code Contest permits ADDRESS WHO
 * SECONDS} (16 clients want one of 10 permits) do the same, but each grant is kept for 1 ms, and the line adds how long it was
 * waited for. Readers and writers then do something else for 1 ms.
 *
 * <p>{@code Contest hold ADDRESS WHO KEY}: says "ready", then takes and gives back one lock as the lines "acquire" and "release"
 * say, and prints when it had it, or began to give it back.
 *
 * <p>Times are in ns of the one clock that all processes read: on Linux System.nanoTime() is that.
 */
final class Contest {
    /** Before it is "ready": a JVM is slow at first. */
    private static final double WARM_UP = 2;
    /** How long a reader, a writer or the holder of a permit keeps its grant, in ns. */
    private static final long KEPT = 1_000_000;
    /** How long a reader or a writer then does something else: else the lock would never be free of readers. */
    private static final long RESTED = 1_000_000;

    private record Grant(long time, long waited) {}

    public static void main(String[] args) throws Exception {
        String mode = args[0], address = args[1], who = args[2];
        var lines = new BufferedReader(new InputStreamReader(System.in));
        if (mode.equals("hold")) {
            hold(Locks.open(who, address, args[3], Locks.Role.SOLE), lines);
        } else {
            var locks = new ArrayList<Locks>();
            for (var role : roles(mode)) locks.add(Locks.open(who, address, "contested", role));
            long kept = mode.equals("contend") ? 0 : KEPT, rested = mode.equals("readers") ? RESTED : 0;
            contend(locks, lines, Double.parseDouble(args[3]), kept, rested);
        }
        System.out.flush();
        Runtime.getRuntime().halt(0); // nothing is to be closed first
    }

    /** What each of the clients wants. */
    private static List<Locks.Role> roles(String mode) {
        return switch (mode) {
            case "contend" -> Collections.nCopies(8, Locks.Role.SOLE);
            case "permits" -> Collections.nCopies(16, Locks.Role.PERMIT);
            case "readers" -> {
                var roles = new ArrayList<>(Collections.nCopies(7, Locks.Role.READER));
                roles.add(Locks.Role.WRITER);
                yield roles;
            }
            default -> throw new IllegalArgumentException(mode);
        };
    }

    private static void contend(List<Locks> locks, BufferedReader lines, double seconds, long kept, long rested)
            throws Exception {
        grants(locks, WARM_UP, kept, rested);
        System.out.println("ready");
        lines.readLine();
        var out = new StringBuilder();
        var grants = grants(locks, seconds, kept, rested);
        for (int client = 0; client < locks.size(); client++) {
            for (var grant : grants.get(client)) {
                out.append(grant.time).append(' ').append(client);
                if (kept > 0) out.append(' ').append(grant.waited);
                out.append('\n');
            }
        }
        System.out.print(out);
    }

    /** The grants of each of the clients, in threads of their own. */
    private static List<List<Grant>> grants(List<Locks> locks, double seconds, long kept, long rested)
            throws Exception {
        long end = System.nanoTime() + (long) (seconds * 1e9);
        var clients = new ArrayList<Callable<List<Grant>>>();
        for (var lock : locks) {
            clients.add(() -> {
                var grants = new ArrayList<Grant>();
                for (long asked = System.nanoTime(); asked < end; asked = System.nanoTime()) {
                    lock.acquire();
                    long now = System.nanoTime();
                    grants.add(new Grant(now, now - asked));
                    sleep(kept);
                    lock.release();
                    sleep(rested);
                }
                return grants;
            });
        }
        var threads = Executors.newFixedThreadPool(locks.size());
        var all = new ArrayList<List<Grant>>();
        for (var done : threads.invokeAll(clients)) all.add(done.get());
        threads.shutdown();
        return all;
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
