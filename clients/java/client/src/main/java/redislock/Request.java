package redislock;

import io.lettuce.core.codec.StringCodec;
import io.lettuce.core.protocol.CommandArgs;
import io.lettuce.core.protocol.ProtocolKeyword;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.UUID;
import java.util.function.Consumer;
import java.util.function.LongSupplier;

/** What the user asks for, as words of the server's commands. */
final class Request {
    /** A command with its arguments. */
    static final class Words {
        final ProtocolKeyword name;
        final CommandArgs<String, String> args;
        final long syncMs;
        volatile long sent; // when it was sent: a lease counts from then
        private boolean begun;
        private boolean unwanted;
        Request notifies; // for an acquire, the request to whose words the channel is still to be added
        LongSupplier block; // for an acquire that waits, how many ms are left

        Words(ProtocolKeyword name, CommandArgs<String, String> args, long syncMs) {
            this.name = name;
            this.args = args;
            this.syncMs = syncMs;
        }

        /** Cancels the command if it is not sent yet. Returns whether this worked. */
        synchronized boolean drop() {
            unwanted = true;
            return !begun;
        }

        /** Called when the command is sent. Fails if it was cancelled. */
        synchronized void begin() {
            if (unwanted) throw new LockException.Closed();
            begun = true;
            if (block != null) args.add("BLOCK").add(block.getAsLong());
            sent = System.nanoTime();
        }
    }

    final List<String> keys;
    final String owner;
    final boolean named;
    final boolean kept;
    final boolean session;
    final boolean starts; // work can begin at the start message, without a claim
    final Duration wait;
    final LockObserver.Mode shape;
    private final List<Object> mode;
    private final List<Object> sync;
    volatile String channel; // the last channel that the server was told
    private long lease; // in ms, 0: the server's default; guarded by the mutex of the core

    Request(List<String> keys, Consumer<Options> wanted) {
        Options options = new Options();
        wanted.accept(options);
        options.check();
        this.keys = List.copyOf(keys);
        if (keys.isEmpty()) throw new IllegalArgumentException("a lock needs a key");
        if (new HashSet<>(keys).size() < keys.size()) throw new IllegalArgumentException("a key is named twice: " + this);
        named = options.owner != null;
        owner = named ? options.owner : UUID.randomUUID().toString();
        session = options.session;
        kept = options.renew || session;
        wait = options.wait;
        shape = options.mode.containsKey("SHARED") ? LockObserver.Mode.SHARED
            : options.mode.containsKey("LIMIT") ? LockObserver.Mode.LIMIT : LockObserver.Mode.EXCLUSIVE;
        lease = options.lease;
        mode = new ArrayList<>();
        options.mode.forEach((word, value) -> {
            mode.add(word);
            mode.addAll(value);
        });
        sync = options.sync;
        // A start message tells of one new grant, without a session or a confirmation by replicas. All others have to be claimed.
        starts = !named && keys.size() == 1 && !session && sync.isEmpty();
    }

    boolean sync() {
        return !sync.isEmpty();
    }

    boolean once() {
        return wait != null && wait.isZero();
    }

    long lease() {
        return lease;
    }

    void lease(long ms) {
        lease = ms;
    }

    /** An acquire that does not wait. */
    Words acquire(long lease) {
        return acquire(lease, null, 0);
    }

    /** An acquire. Without a block it asks once; a block of 0 waits for ever. A start message repeats the number; 0 excludes one. */
    Words acquire(long lease, LongSupplier block, long number) {
        List<Object> words = new ArrayList<>(List.of("OWNER", owner));
        if (lease > 0) words.addAll(List.of("PX", lease));
        if (number > 0) words.addAll(List.of("START", number));
        words.add("ONCE");
        words.addAll(mode);
        words.addAll(sync);
        Words command = command("ACQUIRE", words);
        command.notifies = this;
        command.block = block;
        return command;
    }

    Words extend(List<Long> fences) {
        List<Object> words = new ArrayList<>(List.of(owner));
        if (lease > 0) words.addAll(List.of("PX", lease));
        words.addAll(fence(fences));
        words.addAll(sync);
        return command("EXTEND", words);
    }

    Words release(List<Long> fences) {
        List<Object> words = new ArrayList<>(List.of(owner));
        words.addAll(fence(fences));
        return command("RELEASE", words);
    }

    Words leave() {
        return new Words(keyword("LOCK.LEAVE"), new CommandArgs<>(StringCodec.UTF8).addKey(keys.get(0)).add(owner), 0);
    }

    /** Restricts a command to this grant. Locks that were entered again have different fences, so no FENCE can name them. */
    private static List<Object> fence(List<Long> fences) {
        return fences.stream().distinct().count() == 1 ? List.of("FENCE", fences.get(0)) : List.of();
    }

    private Words command(String verb, List<Object> words) {
        var args = new CommandArgs<>(StringCodec.UTF8);
        if (keys.size() > 1) args.add(keys.size());
        args.addKeys(keys);
        for (Object word : words) args.add(word.toString());
        long syncMs = sync.isEmpty() ? 0 : (Long) sync.get(2);
        return new Words(keyword((keys.size() > 1 ? "LOCK.M" : "LOCK.") + verb), args, syncMs);
    }

    private static ProtocolKeyword keyword(String name) {
        return new ProtocolKeyword() {
            @Override
            public byte[] getBytes() {
                return name.getBytes(StandardCharsets.US_ASCII);
            }

            @Override
            public String toString() {
                return name;
            }
        };
    }

    @Override
    public String toString() {
        return String.join(", ", keys);
    }
}
