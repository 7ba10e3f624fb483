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

/** All waits and held locks of this process, the messages about them, and the one timer. Times are those of System.nanoTime(). */
final class Core {
    private static final String AGED = "it has reached its maximum age (maxHold, or the server's lock.max-hold)";
    static final long LONG = TimeUnit.DAYS.toNanos(36_500);
    static final long TRY_AGAIN = TimeUnit.MILLISECONDS.toNanos(100);
    private static final long CLOSING = TimeUnit.SECONDS.toNanos(4);

    final ReentrantLock mutex = new ReentrantLock();
    final Connections connections;
    private final LockObserver observer; // may be null
    final Renewal renewal = new Renewal(this);
    final Leaving leaving = new Leaving(this);
    final ScheduledThreadPoolExecutor timer =
        new ScheduledThreadPoolExecutor(1, work -> Connections.daemon("timer", work), new ScheduledThreadPoolExecutor.DiscardPolicy());

    // The mutex guards these:
    boolean closed;
    boolean starts = true; // until a server says that it does not know START
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

    /** Host and process, which LOCK.INFO shows to operators. The host's name comes from the kernel: a look-up could take seconds. */
    private static String process() {
        String host = "";
        try {
            Path kernel = Path.of("/proc/sys/kernel/hostname");
            host = Files.exists(kernel) ? Files.readString(kernel).strip() : InetAddress.getLocalHost().getHostName();
        } catch (IOException unknown) { // the name stays empty
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
        // After this, no command is tried again, so no thread may go on waiting for one.
        for (Held held : locked(this::all)) leaving.over(held, new LockException.Closed());
        ended.forEach(Held::left);
    }

    /** Called when the client was closed. Nobody told the holders to stop, and nothing can be sent: their locks are lost. */
    private void endWithClient() {
        connections.close();
        locked(() -> {
            all().forEach(held -> lose(held, "its client was closed"));
            return null;
        });
        close();
    }

    /** Waits until it is done, with or without an error. An interrupt doesn't end this wait. */
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

    // The caller of the following methods has the mutex, except where a method takes it itself.

    private List<Held> all() {
        return entries.values().stream().flatMap(List::stream).toList();
    }

    void register(Held held) {
        entries.computeIfAbsent(held.request.owner, owner -> new ArrayList<>()).add(held);
    }

    /** Forgets the lock, unless its extension is still to be answered, which counts for others of the same grant. */
    void forget(Held held) {
        if (held.sets == 0) entries.computeIfPresent(held.request.owner, (owner, those) -> those.remove(held) && those.isEmpty() ? null : those);
    }

    /** Another Held in one of these states that shares the grant, or will share it. */
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

    /** All that share the grant, including this one. */
    List<Held> sharers(Held held) {
        return entries.getOrDefault(held.request.owner, List.of()).stream()
            .filter(other -> other.state == Held.State.HELD ? other.fences.equals(held.fences) : enters(other, held))
            .toList();
    }

    /** Called before a command whose answer tells the lease: a pending extension of the same grant may reach the server after it. */
    Void departs(Held held) {
        long now = System.nanoTime();
        held.atMost = now + LONG;
        for (Held other : entries.getOrDefault(held.request.owner, List.of())) {
            boolean shares = other != held && (other.fences.equals(held.fences) || enters(held, other));
            if (shares && other.sets > 0 && now + other.sets - held.atMost < 0) held.atMost = now + other.sets;
        }
        return null;
    }

    /** Called when an extension has its answer. */
    void lands(Held held) {
        held.sets = 0;
        if (held.state == Held.State.LOST || held.state == Held.State.OVER) forget(held);
    }

    private static boolean enters(Held held, Held other) {
        return held.state == Held.State.WAITING && sameKeys(held, other);
    }

    /** The server does not know the grant, so it is lost for all that share it. */
    void gone(Held held, String why) {
        for (Held each : List.copyOf(entries.getOrDefault(held.request.owner, List.of()))) {
            if (each.fences.containsAll(held.fences)) lose(each, why);
        }
    }

    /** Reads a message: "start FENCE MS SLOT NUMBER OWNER", "granted FENCE OWNER", "lost FENCE OWNER", "timeout OWNER" or "gone OWNER". */
    private void hear(String message) {
        int count = message.startsWith("start ") ? 6 : message.startsWith("gone ") || message.startsWith("timeout ") ? 2 : 3;
        String[] words = message.split(" ", count); // the owner comes last, because it may contain spaces
        if (words.length < count) return;
        locked(() -> {
            for (Held held : List.copyOf(entries.getOrDefault(words[count - 1], List.of()))) {
                try {
                    hear(held, words);
                } catch (NumberFormatException ignored) {
                    // The message is not from the module.
                }
            }
            return null;
        });
    }

    private void hear(Held held, String[] words) {
        boolean waits = held.state == Held.State.WAITING;
        switch (words[0]) {
            case "gone" -> doubt(held);
            case "granted", "timeout" -> {
                if (waits) doubt(held);
            }
            case "start" -> {
                if (!waits || Long.parseLong(words[4]) != held.number) return; // late: the lock was asked for again since
                held.start = new Held.Start(Long.parseLong(words[1]), Long.parseLong(words[2]), Long.parseLong(words[3]));
                wake(held);
            }
            case "lost" -> {
                long fence = Long.parseLong(words[1]);
                if (waits) held.heardLost.add(fence); // the answer with this fence may come later
                else if (held.state == Held.State.HELD && held.fences.contains(fence)) lose(held, "the server says that it has ended");
            }
            default -> { }
        }
    }

    /** Doubts all locks with this channel, or all locks if the channel is null. */
    private void doubt(String channel) {
        locked(() -> {
            starts = true; // the new server may know START
            all().stream().filter(held -> channel == null || channel.equals(held.request.channel)).forEach(this::doubt);
            return null;
        });
    }

    private boolean needs(String channel) {
        return locked(() -> all().stream().anyMatch(held -> channel.equals(held.request.channel)));
    }

    /** Checks with the server: a wait asks again, and a held lock is acquired again. */
    private void doubt(Held held) {
        if (held.state == Held.State.WAITING) {
            wake(held);
        } else if (held.state == Held.State.HELD) {
            held.doubted = true;
            plan(held, System.nanoTime());
        }
    }

    /** Wakes the thread that waits, so that it asks again. */
    void wake(Held held) {
        held.woken = true;
        LockSupport.unpark(held.waiter);
    }

    /** Wakes all waits of this owner. */
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

    /** Renews what is due, and ends locks whose lease is over. */
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
                    boolean orphan = held.only != null && !held.only.isAlive(); // the one thread that may release it has died, so it lapses
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

    /** Ends the lock if its lease is over: a process that was suspended notices this here. */
    void checkLease(Held held) {
        if (held.state == Held.State.HELD && System.nanoTime() - held.until >= 0) {
            lose(held, "its lease is over, and no renewal came through");
        }
    }

    /**
     * Whether the lock is held from the start message on. Its number proves that the grant is younger than the last acquire, so the lease
     * safely counts from when this was sent. If too little time is left, the wait asks again.
     */
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
        plan(held, now + left / 3); // time for the claim, if the lock is still held then
        return true;
    }

    /** Records the grant of a wait. */
    void hold(Held held, List<?> grant, long began) {
        if (closed) throw new LockException.Closed(); // nobody would notice the end of the lease
        if (grant.size() > 4) held.slots = Held.numbers(grant.get(4));
        held.state = Held.State.HELD;
        renewal.renewed(held, grant.get(3), began);
        if (held.fences.stream().anyMatch(held.heardLost::contains)) lose(held, "the server says that it has ended");
    }

    void lose(Held held, String why) {
        if (held.state != Held.State.HELD) return;
        held.state = Held.State.LOST;
        // The server may report the end a moment before the timer runs.
        held.why = held.aged && System.nanoTime() - held.until >= 0 ? AGED : why;
        held.lost.completeAsync(held::lostException);
        held.over.complete(null);
        forget(held);
        leaving.giveBack(held.request, held.fences); // if only the network failed, or one of several was lost, the server has some
    }
}
