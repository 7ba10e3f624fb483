package redislock;

import io.lettuce.core.AbstractRedisClient;
import java.io.IOException;
import java.net.InetAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.locks.LockSupport;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.Supplier;

/** What waits and what is held in this process, the messages about it, and the one timer. Times are of System.nanoTime(). */
final class Core {
    private static final String AGED = "it has reached its maximum age (maxHold, or the server's lock.max-hold)";
    static final long LONG = TimeUnit.DAYS.toNanos(36_500);
    static final long TRY_AGAIN = TimeUnit.MILLISECONDS.toNanos(100);
    private static final long CLOSING = TimeUnit.SECONDS.toNanos(4);

    final ReentrantLock mutex = new ReentrantLock();
    final Connections connections;
    private final LockObserver observer; // or null
    final Renewal renewal = new Renewal(this);
    final Leaving leaving = new Leaving(this);
    final ScheduledThreadPoolExecutor timer =
        new ScheduledThreadPoolExecutor(1, work -> Connections.daemon("timer", work), new ScheduledThreadPoolExecutor.DiscardPolicy());

    // With the mutex:
    boolean closed;
    boolean starts = true; // the server knows START, for all we know
    private final Map<String, List<Held>> entries = new HashMap<>(); // by owner
    private long next = never();
    private ScheduledFuture<?> tick;

    Core(AbstractRedisClient client, LockObserver observer) {
        this.observer = observer;
        String channel = "redislock:" + process() + ":" + UUID.randomUUID();
        connections = new Connections(client, channel, this::hear, this::doubt, this::needs, this::endWithClient);
        timer.setRemoveOnCancelPolicy(true);
        timer.setExecuteExistingDelayedTasksAfterShutdownPolicy(false);
    }

    /** Host and process, which operators are shown. The kernel tells the host's name without a look-up, which can take seconds. */
    private static String process() {
        String host = "";
        try {
            Path kernel = Path.of("/proc/sys/kernel/hostname");
            host = Files.exists(kernel) ? Files.readString(kernel).strip() : InetAddress.getLocalHost().getHostName();
        } catch (IOException unknown) { // then the process has to do
        }
        host = host.replaceAll("[^A-Za-z0-9._-]", "_");
        return host.substring(0, Math.min(host.length(), 64)) + ":" + ProcessHandle.current().pid();
    }

    static long never() {
        return System.nanoTime() + LONG;
    }

    <T> T locked(Supplier<T> work) {
        mutex.lock();
        try {
            return work.get();
        } finally {
            mutex.unlock();
        }
    }

    Held acquire(Request request, boolean interruptible) throws InterruptedException {
        if (observer == null) return acquire(request, interruptible, null);
        var watch = new Watch(observer, request);
        try {
            var held = acquire(request, interruptible, watch);
            watch.acquired(held);
            return held;
        } catch (InterruptedException | RuntimeException why) {
            watch.refused(why);
            throw why;
        }
    }

    private Held acquire(Request request, boolean interruptible, Watch watch) throws InterruptedException {
        if (interruptible && Thread.interrupted()) throw new InterruptedException();
        var held = new Held(this, request, watch);
        mutex.lock();
        try {
            if (closed) throw new LockException.Closed();
            register(held);
        } finally {
            mutex.unlock();
        }
        new Wait(this, held, interruptible).run();
        return held;
    }

    void close() {
        List<Held> all = new ArrayList<>();
        mutex.lock();
        try {
            if (closed) return;
            closed = true;
            all.addAll(all());
            all.forEach(held -> LockSupport.unpark(held.waiter));
        } finally {
            mutex.unlock();
        }
        List<Held> ended = all.stream().filter(leaving::begin).toList(); // waits end by themselves
        await(CompletableFuture.allOf(all.stream().map(held -> held.over).toArray(CompletableFuture<?>[]::new)), CLOSING);
        connections.close();
        timer.shutdown();
        // Nothing is sent again any more, so nobody may wait for it.
        for (Held held : locked(this::all)) leaving.over(held, new LockException.Closed());
        ended.forEach(Held::left);
    }

    /** Nobody has told the holders to stop, and nothing can be sent any more: to them, their locks are lost. */
    private void endWithClient() {
        connections.close();
        locked(() -> {
            all().forEach(held -> lose(held, "its client was closed"));
            return null;
        });
        close();
    }

    /** Waits, whatever becomes of it, without being interrupted. */
    static void await(CompletableFuture<?> done, long most) {
        boolean interrupted = false;
        for (long end = System.nanoTime() + most;;) {
            try {
                done.get(end - System.nanoTime(), TimeUnit.NANOSECONDS);
                break;
            } catch (InterruptedException later) {
                interrupted = true;
            } catch (ExecutionException | TimeoutException over) {
                break;
            }
        }
        if (interrupted) Thread.currentThread().interrupt();
    }

    // All that follows is to be called with the mutex, if it does not take it itself.

    private List<Held> all() {
        return entries.values().stream().flatMap(List::stream).toList();
    }

    void register(Held held) {
        entries.computeIfAbsent(held.request.owner, owner -> new ArrayList<>()).add(held);
    }

    /** Others count with an extension until it is answered. */
    void forget(Held held) {
        if (held.sets == 0) entries.computeIfPresent(held.request.owner, (owner, those) -> those.remove(held) && those.isEmpty() ? null : those);
    }

    /** Another one in the same grant, or that will be in it, in one of these states. */
    Held partner(Held held, Held.State... states) {
        for (Held other : entries.getOrDefault(held.request.owner, List.of())) {
            boolean one = other.fences.isEmpty() || held.fences.isEmpty() || other.fences.equals(held.fences);
            if (other != held && !other.used && one && Arrays.asList(states).contains(other.state) && sameKeys(other, held)) return other;
        }
        return null;
    }

    private static boolean sameKeys(Held one, Held other) {
        return new HashSet<>(one.request.keys).equals(new HashSet<>(other.request.keys));
    }

    /** All in the same grant, itself too. */
    List<Held> sharers(Held held) {
        return entries.getOrDefault(held.request.owner, List.of()).stream()
            .filter(other -> other.state == Held.State.HELD ? other.fences.equals(held.fences) : enters(other, held))
            .toList();
    }

    /** For each command whose answer tells the lease: an extension of the same grant that is on its way may come behind it. */
    Void departs(Held held) {
        long now = System.nanoTime();
        held.atMost = now + LONG;
        for (Held other : entries.getOrDefault(held.request.owner, List.of())) {
            boolean shares = other != held && (other.fences.equals(held.fences) || enters(held, other));
            if (shares && other.sets > 0 && now + other.sets - held.atMost < 0) held.atMost = now + other.sets;
        }
        return null;
    }

    /** An extension has its answer. */
    void lands(Held held) {
        held.sets = 0;
        if (held.state == Held.State.LOST || held.state == Held.State.OVER) forget(held);
    }

    private static boolean enters(Held held, Held other) {
        return held.state == Held.State.WAITING && sameKeys(held, other);
    }

    /** The server knows nothing of the grant: it is lost for all that share it. */
    void gone(Held held, String why) {
        for (Held each : List.copyOf(entries.getOrDefault(held.request.owner, List.of()))) {
            if (each.fences.containsAll(held.fences)) lose(each, why);
        }
    }

    /** A message: "start FENCE MS SLOT NUMBER OWNER", "granted FENCE OWNER", "lost FENCE OWNER" or "gone OWNER". */
    private void hear(String message) {
        int count = message.startsWith("start ") ? 6 : message.startsWith("gone ") ? 2 : 3;
        String[] words = message.split(" ", count); // the owner comes last, because it may contain anything
        if (words.length < count) return;
        locked(() -> {
            for (Held held : List.copyOf(entries.getOrDefault(words[count - 1], List.of()))) {
                try {
                    hear(held, words);
                } catch (NumberFormatException ignored) {
                    // not from the module
                }
            }
            return null;
        });
    }

    private void hear(Held held, String[] words) {
        boolean waits = held.state == Held.State.WAITING;
        switch (words[0]) {
            case "gone" -> doubt(held);
            case "granted" -> {
                if (waits) doubt(held);
            }
            case "start" -> {
                if (!waits || Long.parseLong(words[4]) != held.number) return; // an earlier grant, that has been asked for again since
                held.start = new Held.Start(Long.parseLong(words[1]), Long.parseLong(words[2]), Long.parseLong(words[3]));
                wake(held);
            }
            case "lost" -> {
                long fence = Long.parseLong(words[1]);
                if (waits) held.heardLost.add(fence); // what tells of its grant may still be on its way
                else if (held.state == Held.State.HELD && held.fences.contains(fence)) lose(held, "the server says that it has ended");
            }
            default -> { }
        }
    }

    /** Those with that channel, or all if there is none. */
    private void doubt(String channel) {
        locked(() -> {
            starts = true; // it may be another server
            all().stream().filter(held -> channel == null || channel.equals(held.request.channel)).forEach(this::doubt);
            return null;
        });
    }

    private boolean needs(String channel) {
        return locked(() -> all().stream().anyMatch(held -> channel.equals(held.request.channel)));
    }

    /** Finds out how things are: a wait asks again, a held lock is looked at. */
    private void doubt(Held held) {
        if (held.state == Held.State.WAITING) {
            wake(held);
        } else if (held.state == Held.State.HELD) {
            held.doubted = true;
            plan(held, System.nanoTime());
        }
    }

    /** A wait is to ask again. */
    void wake(Held held) {
        held.woken = true;
        LockSupport.unpark(held.waiter);
    }

    /** Those that wait under this name. */
    void wakeAll(String owner) {
        for (Held held : entries.getOrDefault(owner, List.of())) {
            if (held.state == Held.State.WAITING) wake(held);
        }
    }

    void plan(Held held, long due) {
        held.due = due;
        long first = due - held.until > 0 ? held.until : due;
        if (first - next < 0) schedule(first);
    }

    private void schedule(long when) {
        next = when;
        if (tick != null) tick.cancel(false);
        tick = timer.schedule(this::tick, Math.max(TimeUnit.MILLISECONDS.toNanos(1), when - System.nanoTime()), TimeUnit.NANOSECONDS);
    }

    /** Renews what is due, and looks for leases that are over. */
    private void tick() {
        List<Held> due = new ArrayList<>();
        locked(() -> {
            long now = System.nanoTime();
            long first = now + LONG;
            for (Held held : all()) {
                checkLease(held);
                if (held.state != Held.State.HELD) continue;
                if (now - held.due >= 0) {
                    held.due = now + LONG;
                    boolean orphan = held.only != null && !held.only.isAlive(); // it ends as if the process had
                    if (!held.renewing && !orphan) due.add(held);
                    held.renewing = true;
                }
                for (long each : new long[] {held.until, held.due}) {
                    if (each - first < 0) first = each;
                }
            }
            schedule(first);
            return null;
        });
        due.forEach(renewal::renew);
    }

    /** A process that stood still finds out here. */
    void checkLease(Held held) {
        if (held.state == Held.State.HELD && System.nanoTime() - held.until >= 0) {
            lose(held, "its lease is over, and no renewal came through");
        }
    }

    /** Whether the lock is held from the message on. Its grant is younger than the question that it answers: what is believed counts from
     * that. If too little is left, the next answer tells what has become of it. */
    boolean start(Held held, long asked) {
        if (held.start == null) return false;
        if (closed) throw new LockException.Closed();
        long lasts = TimeUnit.MILLISECONDS.toNanos(held.start.ms());
        long now = System.nanoTime();
        long left = asked + lasts - now;
        if (left < lasts / 5 || held.heardLost.contains(held.start.fence())) return false;
        held.fences = List.of(held.start.fence());
        if (held.start.slot() > 0) held.slots = List.of(held.start.slot());
        held.state = Held.State.HELD;
        held.unclaimed = true;
        held.lease = lasts;
        held.until = asked + lasts;
        plan(held, now + left / 3); // the claim, if the lock is held for so long
        return true;
    }

    /** The wait has got its grant. */
    void hold(Held held, List<?> grant, long began) {
        if (closed) throw new LockException.Closed(); // nobody would see that the lease is over
        if (grant.size() > 4) held.slots = Held.numbers(grant.get(4));
        held.state = Held.State.HELD;
        renewal.renewed(held, grant.get(3), began);
        if (held.fences.stream().anyMatch(held.heardLost::contains)) lose(held, "the server says that it has ended");
    }

    void lose(Held held, String why) {
        if (held.state != Held.State.HELD) return;
        held.state = Held.State.LOST;
        // The server may say that it has ended before the clock's look.
        held.why = held.aged && System.nanoTime() - held.until >= 0 ? AGED : why;
        held.lost.completeAsync(held::lostException);
        held.over.complete(null);
        forget(held);
        leaving.giveBack(held.request, held.fences); // perhaps only the network failed, or there are others of several locks
    }
}
