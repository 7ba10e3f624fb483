package redislock;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** The options of an acquire. Bad input is refused here, before anything is sent. Times are whole milliseconds. */
public final class Options {
    final Map<String, List<Object>> mode = new LinkedHashMap<>(); // words of the command, each with its arguments
    List<Object> sync = List.of();
    Duration wait;
    long lease;
    String owner;
    boolean renew = true;
    boolean session;
    private boolean shared;
    private int limit; // 0: no limit
    private int slot; // 0: any slot

    Options() {}

    /** Limits the wait; zero asks once. Without this option, a wait has no end. */
    public Options wait(Duration most) {
        if (most.isNegative()) throw new IllegalArgumentException("a wait must not be negative: " + most);
        wait = most;
        return this;
    }

    /** How long the lock stays held if its process dies: by default the server's own default, 30 s. */
    public Options lease(Duration length) {
        lease = ms("a lease", length);
        return this;
    }

    /** With false, the lock ends with its lease, unless {@link Held#extend} is called. */
    public Options renew(boolean wanted) {
        renew = wanted;
        return this;
    }

    /** The lock is never held for longer, however often it is renewed. */
    public Options maxHold(Duration most) {
        return mode("MAXHOLD", ms("a maximum age", most));
    }

    /** The server renews the lock, and frees it as soon as the connection of this process closes. */
    public Options session() {
        session = true;
        return mode("SESSION");
    }

    /** For readers: any number of them hold the lock together. */
    public Options shared() {
        shared = true;
        return one().mode("SHARED");
    }

    /** At most so many hold the lock together. {@link Held#slot} tells which of them this one is. */
    public Options limit(int most) {
        if (most < 1) throw new IllegalArgumentException("a limit must be at least 1: " + most);
        limit = most;
        return one().mode("LIMIT", most);
    }

    /** Asks for this slot of the {@link #limit}, a number from 1 to the limit, and for no other. */
    public Options slot(int number) {
        if (number < 1) throw new IllegalArgumentException("a slot must be at least 1: " + number);
        slot = number;
        return mode("SLOT", number);
    }

    /** Describes the holder to operators. */
    public Options label(String text) {
        return mode("LABEL", text);
    }

    /** The owner name, with which the same owner can enter the lock again, or use it in another process. By default, it is a fresh name. */
    public Options owner(String name) {
        int length = name.getBytes(StandardCharsets.UTF_8).length;
        if (length < 1 || length > 128) throw new IllegalArgumentException("an owner must be 1 to 128 bytes long: " + length);
        owner = name;
        return this;
    }

    /** Fails with {@link LockException.Deadlock} if the wait would never end. For this, all locks of a task need the same owner. */
    public Options detect() {
        return mode("DETECT");
    }

    /** The lock counts only once so many replicas have it, within that time. */
    public Options sync(int replicas, Duration within) {
        if (replicas < 1) throw new IllegalArgumentException("a number of replicas must be at least 1: " + replicas);
        sync = List.of("SYNC", replicas, ms("a time for replicas", within));
        return this;
    }

    private Options mode(String word, Object... value) {
        mode.put(word, List.of(value));
        return this;
    }

    private Options one() {
        if (shared && limit > 0) throw new IllegalArgumentException("shared and limit exclude each other");
        return this;
    }

    /** Checks what only all options together show. */
    void check() {
        if (slot > limit) throw new IllegalArgumentException("a slot must be one of the numbers from 1 to the limit: " + slot);
    }

    static long ms(String what, Duration time) {
        if (time.compareTo(Duration.ofMillis(1)) < 0) throw new IllegalArgumentException(what + " must be at least 1 ms: " + time);
        return time.toMillis();
    }
}
