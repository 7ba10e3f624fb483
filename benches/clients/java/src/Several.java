import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.ThreadLocalRandom;
import java.util.function.Supplier;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.commands.ProtocolCommand;

/** A client of its own that takes several locks at once, as the users of the library take them. */
interface Several extends Locks {
    /** {@code keys} says which ones, each time anew. */
    static Locks open(String who, String address, Supplier<List<String>> keys) {
        return switch (who) {
            case "several" -> new ByOneCommand(address, keys);
            case "multilock" -> new OfRedisson(address, keys);
            case "multilock-in-order" -> new OfRedisson(address, () -> keys.get().stream().sorted().toList());
            default -> throw new IllegalArgumentException(who);
        };
    }

    /** So many of these, by chance and in any order. */
    static Supplier<List<String>> some(int count, List<String> of) {
        return () -> {
            var shuffled = new ArrayList<>(of);
            Collections.shuffle(shuffled, ThreadLocalRandom.current());
            return List.copyOf(shuffled.subList(0, count));
        };
    }

    final class ByOneCommand implements Several {
        private static final ProtocolCommand ACQUIRE = "LOCK.MACQUIRE"::getBytes, RELEASE = "LOCK.MRELEASE"::getBytes;
        private final Jedis client;
        private final Supplier<List<String>> keys;
        private List<String> taken;
        private String owner;
        private long fence;

        ByOneCommand(String address, Supplier<List<String>> keys) {
            client = Locks.jedis(address);
            this.keys = keys;
        }

        @Override
        public void acquire() {
            taken = keys.get();
            owner = UUID.randomUUID().toString();
            var grant = (List<?>) client.sendBlockingCommand(ACQUIRE, words("OWNER", owner, "PX", "30000", "BLOCK", "0", "ONCE"));
            fence = (Long) ((List<?>) grant.get(1)).get(0);
        }

        @Override
        public void release() {
            var left = client.sendCommand(RELEASE, words(owner, "FENCE", Long.toString(fence)));
            // What is lost is no error here, but null.
            if (!left.equals(Collections.nCopies(taken.size(), 0L))) throw new IllegalStateException("lost: " + left);
        }

        /** How many keys, the keys, and what follows. */
        private String[] words(String... rest) {
            var words = new ArrayList<String>();
            words.add(Integer.toString(taken.size()));
            words.addAll(taken);
            Collections.addAll(words, rest);
            return words.toArray(String[]::new);
        }
    }

    /** Its MultiLock, with the watchdog, which keeps the leases at 30 s. */
    final class OfRedisson implements Several {
        private final RedissonClient client;
        private final Supplier<List<String>> keys;
        private RLock lock;

        OfRedisson(String address, Supplier<List<String>> keys) {
            client = Locks.redisson(address);
            this.keys = keys;
        }

        @Override
        public void acquire() {
            lock = client.getMultiLock(keys.get().stream().map(client::getLock).toArray(RLock[]::new));
            lock.lock();
        }

        @Override
        public void release() {
            lock.unlock();
        }
    }
}
