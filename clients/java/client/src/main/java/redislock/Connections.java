package redislock;

import io.lettuce.core.AbstractRedisClient;
import io.lettuce.core.Delegating;
import io.lettuce.core.RedisChannelHandler;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisCommandTimeoutException;
import io.lettuce.core.RedisConnectionStateListener;
import io.lettuce.core.RedisReadOnlyException;
import io.lettuce.core.api.StatefulConnection;
import io.lettuce.core.cluster.RedisClusterClient;
import io.lettuce.core.cluster.SlotHash;
import io.lettuce.core.cluster.StatefulRedisClusterConnectionImpl;
import io.lettuce.core.cluster.api.StatefulRedisClusterConnection;
import io.lettuce.core.cluster.models.partitions.Partitions;
import io.lettuce.core.cluster.pubsub.StatefulRedisClusterPubSubConnection;
import io.lettuce.core.protocol.AsyncCommand;
import io.lettuce.core.protocol.Command;
import io.lettuce.core.protocol.DefaultEndpoint;
import io.lettuce.core.pubsub.RedisPubSubAdapter;
import io.lettuce.core.pubsub.StatefulRedisPubSubConnection;
import java.time.Duration;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.Consumer;
import java.util.function.Predicate;
import java.util.function.Supplier;
import java.util.regex.Pattern;

/** The connections of a process, made with the user's client: for commands, for sessions if there are any, and the subscription. */
final class Connections {
    private static final long SILENCE = 4; // s without a message until the subscription is pinged, and again until it is made anew
    private static final long ANSWER_MS = 10_000; // no command takes this long at the server: the connection is dead
    private static final long TRY_AGAIN_MS = 100;
    private static final CompletableFuture<Void> NOTHING = CompletableFuture.completedFuture(null);
    private static final String ONE_NODE = "this server is one node of a cluster: use a RedisClusterClient";
    /** Messages of Lettuce, and of Netty, whose threads may end before the client is shut down. */
    private static final Pattern CLOSED = Pattern.compile("shut down|terminated|not accepting");

    private final AbstractRedisClient client;
    private final String channel;
    private final Consumer<String> hear;
    private final Consumer<String> doubt; // called for a channel that may have missed messages; null: all channels
    private final Predicate<String> needs;
    private final Runnable ended;
    private final Lane commands = new Lane();
    private final Lane sessions = new Lane();
    private final Deadlines deadlines = new Deadlines();
    private final AtomicInteger breaks = new AtomicInteger();
    private final CountDownLatch closing = new CountDownLatch(1);
    private final ReentrantLock lock = new ReentrantLock();
    private final Set<Thread> connecting = ConcurrentHashMap.newKeySet(); // a thread that connects with a client that is closed hangs for ever
    private volatile Thread listener;
    private volatile Shards shards; // null outside a cluster
    private volatile boolean gone; // the user's client was closed
    private volatile Duration patience = Duration.ofNanos(Core.LONG);
    private volatile CompletableFuture<Void> ready = new CompletableFuture<>(); // done once subscribed, or after a failure
    private CountDownLatch broken = new CountDownLatch(1);
    private final CompletableFuture<Void> unsubscribed = new CompletableFuture<>(); // completed by the listener when it ends
    private final RedisConnectionStateListener watch = new RedisConnectionStateListener() {
        @Override
        public void onRedisDisconnected(RedisChannelHandler<?, ?> connection) {
            breaks.incrementAndGet();
            boolean closed = isClosed(connection);
            boolean ours = commands.drop(connection) | sessions.drop(connection);
            if (ours && closed) endWithClient();
            else if (ours || !closed && client instanceof RedisClusterClient) doubt.accept(null); // places and unclaimed grants are gone
        }
    };

    /** `doubt` is called when messages or grants may be lost; `ended` when the user's client was closed, and all its connections with it. */
    Connections(AbstractRedisClient client, String channel, Consumer<String> hear, Consumer<String> doubt, Predicate<String> needs, Runnable ended) {
        if (!(client instanceof RedisClient || client instanceof RedisClusterClient)) {
            throw new IllegalArgumentException("neither a RedisClient nor a RedisClusterClient: " + client);
        }
        this.client = client;
        this.channel = channel;
        this.hear = hear;
        this.doubt = doubt;
        this.needs = needs;
        this.ended = ended;
        client.addListener(watch);
        client.getResources().eventExecutorGroup().terminationFuture().addListener(over -> endWithClient());
    }

    /** A connection that is made when it is needed, and made anew when it was lost. Commands without an answer fail then. */
    private final class Lane {
        private volatile CompletableFuture<StatefulConnection<String, String>> current;

        CompletableFuture<StatefulConnection<String, String>> get() {
            var made = current; // the fast way, without the lock: every command comes here
            if (made != null && made.isDone() && !made.isCompletedExceptionally() && closing.getCount() > 0) return made;
            lock.lock();
            try {
                if (closing.getCount() == 0) return CompletableFuture.failedFuture(new LockException.Closed());
                if (current == null || current.isCompletedExceptionally()) {
                    current = CompletableFuture.supplyAsync(Connections.this::connect, work -> daemon("connect", work).start());
                }
                return current;
            } finally {
                lock.unlock();
            }
        }

        /** Forgets the connection. Returns whether it was the current one. */
        boolean drop(Object connection) {
            lock.lock();
            try {
                if (current == null || current.isCompletedExceptionally()) return false;
                if (!current.isDone()) { // the one being made may be this one, if it broke before anybody used it
                    current.thenAccept(made -> drop(connection));
                    return false;
                }
                if (current.join() != connection) return false;
                current = null;
            } finally {
                lock.unlock();
            }
            end((StatefulConnection<?, ?>) connection);
            return true;
        }

        void moved(Partitions slots) {
            var made = current;
            if (made != null && made.isDone() && !made.isCompletedExceptionally()
                && made.join() instanceof StatefulRedisClusterConnectionImpl<?, ?> connection) connection.setPartitions(slots);
        }

        CompletableFuture<Void> close() {
            return current == null ? CompletableFuture.completedFuture(null) : current.thenCompose(Connections::end);
        }
    }

    private static CompletableFuture<Void> end(StatefulConnection<?, ?> connection) {
        return isClosed(connection) ? CompletableFuture.completedFuture(null) : connection.closeAsync(); // Lettuce would warn
    }

    private void endWithClient() {
        gone = true;
        closing.countDown();
        broken.countDown();
        connecting.forEach(Thread::interrupt);
    }

    /** Whether the connection was closed by this package or with the client, and not lost by the network. */
    private static boolean isClosed(Object connection) {
        return connection instanceof RedisChannelHandler<?, ?> made && made.isClosed();
    }

    /** How often connections have broken. If this has changed, Lettuce may have sent a pending command twice. */
    int breaks() {
        return breaks.get();
    }

    /** How long the client lets a command wait for its answer, as read from the connections made so far. */
    Duration patience() {
        return patience;
    }

    /** Sends a command. The answer is null, a text, a number or a list. Never call this with a mutex that callbacks take. */
    CompletableFuture<Object> send(Request.Words words, boolean session) {
        Lane lane = session ? sessions : commands;
        return ready().thenCompose(ready -> listens(words)).thenCompose(listens -> lane.get()).thenCompose(connection -> {
            var command = new AsyncCommand<String, String, Object>(new Command<>(words.name, new Reply(), words.args));
            words.begin();
            deadlines.add(command, ANSWER_MS + words.syncMs);
            connection.dispatch(command);
            return command.handle((reply, error) -> {
                if (error == null) return reply;
                boolean silent = error instanceof RedisCommandTimeoutException;
                if (silent && !cutNode(connection, words) || error instanceof RedisReadOnlyException) lane.drop(connection);
                boolean isStray = client instanceof RedisClient && LockException.says(error, "MOVED");
                throw new CompletionException(isStray ? new IllegalStateException(ONE_NODE + " (" + error.getMessage() + ")") : error);
            });
        });
    }

    /** In a cluster, cuts only the connection to the node that does not answer. Returns whether there is such a node. */
    private static boolean cutNode(StatefulConnection<String, String> connection, Request.Words words) {
        if (!(connection instanceof StatefulRedisClusterConnection<String, String> all)) return false;
        var node = all.getPartitions().getPartitionBySlot(SlotHash.getSlot(words.args.getFirstEncodedKey()));
        if (node == null) return false;
        var made = all.getConnectionAsync(node.getUri().getHost(), node.getUri().getPort());
        return !made.isDone() || !made.isCompletedExceptionally() && cut(made.join());
    }

    /** Cuts a dead connection, which Lettuce then makes anew. Returns whether it can: not if a cluster's connection was closed. */
    static boolean cut(StatefulConnection<?, ?> dead) {
        if (!(dead instanceof RedisChannelHandler<?, ?> made)) return false;
        Object writer = made.getChannelWriter() instanceof Delegating<?> outer ? outer.unwrap() : made.getChannelWriter();
        if (!(writer instanceof DefaultEndpoint endpoint)) return false;
        endpoint.disconnect();
        return true;
    }

    /** Waits until the channel of an acquire is subscribed, and adds it to the words. Other commands need not wait. */
    private CompletableFuture<Void> listens(Request.Words words) {
        if (words.notifies == null) return NOTHING;
        var known = shards;
        var heard = known == null ? CompletableFuture.completedFuture(channel) : known.channelOf(words.notifies.keys.get(0));
        return heard.thenAccept(channel -> {
            words.notifies.channel = channel;
            words.args.add("NOTIFY").add(channel);
        });
    }

    private StatefulConnection<String, String> connect() {
        if (client instanceof RedisClient single) return connecting(single::connect);
        var cluster = (RedisClusterClient) client;
        if (breaks.get() > 0) Core.await(cluster.refreshPartitionsAsync().toCompletableFuture().copy(), TimeUnit.SECONDS.toNanos(1));
        return connecting(cluster::connect);
    }

    private StatefulRedisPubSubConnection<String, String> connectPubSub() {
        return connecting(() -> client instanceof RedisClient single ? single.connectPubSub() : ((RedisClusterClient) client).connectPubSub());
    }

    private boolean isShutDown() {
        return client.getResources().eventExecutorGroup().isShuttingDown();
    }

    private <T> T connecting(Supplier<T> connect) {
        connecting.add(Thread.currentThread());
        try {
            if (gone) throw new LockException.Closed();
            return connect.get();
        } catch (IllegalStateException failed) {
            throw isShutDown() || CLOSED.matcher(String.valueOf(failed.getMessage())).find() ? new LockException.Closed() : failed;
        } finally {
            connecting.remove(Thread.currentThread());
        }
    }

    private CompletableFuture<Void> ready() {
        if (listener != null) return ready;
        lock.lock();
        try {
            if (listener == null && (closing.getCount() > 0 || gone)) {
                listener = daemon("listener", this::listen);
                listener.start();
            }
            return ready;
        } finally {
            lock.unlock();
        }
    }

    /** Runs the process's one subscription, which begins with the first lock. */
    private void listen() {
        for (long pause = 0;; pause = Math.min(1000, pause + TRY_AGAIN_MS)) {
            try {
                if (closing.await(pause, TimeUnit.MILLISECONDS)) break;
                subscription();
                pause = -TRY_AGAIN_MS; // at once
            } catch (Exception failed) {
                if (isShutDown() || failed instanceof LockException.Closed) endWithClient();
                CompletableFuture<Void> waiting;
                lock.lock();
                try {
                    waiting = ready;
                    if (!waiting.isDone()) ready = new CompletableFuture<>();
                } finally {
                    lock.unlock();
                }
                waiting.completeExceptionally(gone ? new LockException.Closed() : failed);
            }
        }
        unsubscribed.complete(null);
        if (gone) ended.run();
    }

    /** Reads messages for as long as the connection lasts. */
    private void subscription() throws Exception {
        var ended = new CountDownLatch(1);
        lock.lock();
        try {
            broken = ended;
        } finally {
            lock.unlock();
        }
        var connection = connectPubSub();
        if (!connection.getTimeout().isZero()) patience = connection.getTimeout();
        try {
            connection.addListener(new RedisConnectionStateListener() {
                @Override
                public void onRedisDisconnected(RedisChannelHandler<?, ?> lost) {
                    ended.countDown();
                }
            });
            connection.addListener(new RedisPubSubAdapter<>() {
                @Override
                public void message(String from, String message) {
                    hear.accept(message);
                }
            });
            Shards own = null;
            if (connection instanceof StatefulRedisClusterPubSubConnection<String, String> base) {
                own = new Shards((RedisClusterClient) client, base, channel, hear, doubt, needs, ended::countDown, slots -> {
                    commands.moved(slots);
                    sessions.moved(slots);
                });
            } else {
                connection.async().subscribe(channel).get(SILENCE, TimeUnit.SECONDS);
            }
            shards = own;
            if (!ready.complete(null)) doubt.accept(null); // subscribed anew: messages were lost
            while (closing.getCount() > 0 && !ended.await(SILENCE, TimeUnit.SECONDS)) {
                connection.async().ping().get(SILENCE, TimeUnit.SECONDS);
                if (own != null) own.look();
            }
        } finally {
            if (isClosed(connection)) endWithClient();
            end(connection).join();
            if (shards != null) shards.end();
        }
    }

    void close() {
        closing.countDown();
        client.removeListener(watch);
        CompletableFuture<Void> lanes;
        lock.lock();
        try {
            broken.countDown();
            ready.completeExceptionally(new LockException.Closed());
            lanes = CompletableFuture.allOf(commands.close(), sessions.close(), unsubscribed);
            if (listener == null) unsubscribed.complete(null);
        } finally {
            lock.unlock();
        }
        Core.await(lanes, TimeUnit.SECONDS.toNanos(1));
    }

    static Thread daemon(String name, Runnable work) {
        var thread = new Thread(work, "redislock-" + name);
        thread.setDaemon(true);
        return thread;
    }
}
