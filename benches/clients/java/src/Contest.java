import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.Executors;

/**
 * Clients that want one lock; benches/compare starts them, and docs/bench.md tells what it counts.
 *
 * <p>{@code Contest contend ADDRESS WHO SECONDS}: says "ready", waits for a line, has 8 clients contend for so long, and prints
 * a line for each grant: when it came, and which client's it was. {@code Contest hold ADDRESS WHO KEY}: says "ready", then takes
 * and gives back one lock as the lines "acquire" and "release" say, and prints when it had it, or began to give it back.
 *
 * <p>Times are in ns of the one clock that all processes read: on Linux System.nanoTime() is that.
 */
final class Contest {
    private static final int CLIENTS = 8;
    /** Before it is "ready": a JVM is slow at first. */
    private static final double WARM_UP = 2;

    public static void main(String[] args) throws Exception {
        String address = args[1], who = args[2];
        var lines = new BufferedReader(new InputStreamReader(System.in));
        if (args[0].equals("hold")) {
            hold(Locks.open(who, address, args[3]), lines);
        } else {
            contend(who, address, lines, Double.parseDouble(args[3]));
        }
        System.out.flush();
        Runtime.getRuntime().halt(0); // nothing is to be closed first
    }

    private static void contend(String who, String address, BufferedReader lines, double seconds) throws Exception {
        var locks = new ArrayList<Locks>();
        for (int client = 0; client < CLIENTS; client++) locks.add(Locks.open(who, address, "contested"));
        grants(locks, WARM_UP);
        System.out.println("ready");
        lines.readLine();
        var out = new StringBuilder();
        var grants = grants(locks, seconds);
        for (int client = 0; client < CLIENTS; client++) {
            for (long time : grants.get(client)) out.append(time).append(' ').append(client).append('\n');
        }
        System.out.print(out);
    }

    /** When each of the clients, in threads of their own, was granted the lock. */
    private static List<List<Long>> grants(List<Locks> locks, double seconds) throws Exception {
        long end = System.nanoTime() + (long) (seconds * 1e9);
        var clients = new ArrayList<Callable<List<Long>>>();
        for (var lock : locks) {
            clients.add(() -> {
                var grants = new ArrayList<Long>();
                while (System.nanoTime() < end) {
                    lock.acquire();
                    grants.add(System.nanoTime());
                    lock.release();
                }
                return grants;
            });
        }
        var threads = Executors.newFixedThreadPool(CLIENTS);
        var all = new ArrayList<List<Long>>();
        for (var done : threads.invokeAll(clients)) all.add(done.get());
        threads.shutdown();
        return all;
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
