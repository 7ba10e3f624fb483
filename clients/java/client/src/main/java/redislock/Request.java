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

/** What is asked of the server, in its own words. */
final class Request {
    /** A command with its arguments. */
    static final class Words {
        final ProtocolKeyword name;
        final CommandArgs<String, String> args;
        final long syncMs;
        volatile long sent; // a lease counts from then
        private boolean begun;
        private boolean unwanted;
        Request notifies; // an acquire, to which the channel is still to be added
        LongSupplier block; // and how long it waits

        Words(ProtocolKeyword name, CommandArgs<String, String> args, long syncMs) {
            this.name = name;
            this.args = args;
            this.syncMs = syncMs;
        }

        /** Whether it is not sent yet. Then it never is. */
        synchronized boolean drop() {
            unwanted = true;
            return !begun;
        }

        /** It is sent now. */
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
    final boolean starts; // the message is enough to begin
    final Duration wait;
    final LockObserver.Mode shape;
    private final List<Object> mode;
    private final List<Object> sync;
    volatile String channel; // that the server was told last
    private long lease; // ms, 0: that of the server; changed with the mutex of the locks

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
        // All others claim first: the message tells of one grant that is new, and nothing ties it to a connection or confirms it.
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

    /** Asks once. */
    Words acquire(long lease) {
        return acquire(lease, null, 0);
    }

    /** Without a block it asks once, 0 waits for ever. The message that says that number again is to be enough to begin, unless it is 0. */
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

    /** Has commands act only on that grant. Locks that were entered again have different fences, and none to name. */
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
