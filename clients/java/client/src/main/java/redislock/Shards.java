package redislock;

import io.lettuce.core.RedisChannelHandler;
import io.lettuce.core.RedisConnectionStateListener;
import io.lettuce.core.RedisException;
import io.lettuce.core.cluster.RedisClusterClient;
import io.lettuce.core.cluster.SlotHash;
import io.lettuce.core.cluster.models.partitions.ClusterPartitionParser;
import io.lettuce.core.cluster.models.partitions.Partitions;
import io.lettuce.core.cluster.pubsub.StatefulRedisClusterPubSubConnection;
import io.lettuce.core.pubsub.RedisPubSubAdapter;
import io.lettuce.core.pubsub.RedisPubSubListener;
import io.lettuce.core.pubsub.StatefulRedisPubSubConnection;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import java.util.function.Predicate;

/**
 * In a cluster: one subscription for each shard in which the process waits or holds, at the shard's primary. A subscription that is lost is
 * opened anew for the next acquire that needs it.
 */
final class Shards {
    private static final long REFRESH_MS = 1000; // the longest wait for a refresh of the topology
    private static final long ANSWER_MS = 4000;
    private static final int TAGS = 1 << 17; // each of the 16,384 slots has 8 of these tags on average
    private static final long IDLE = TimeUnit.SECONDS.toNanos(10); // a subscription that nobody needs for so long is closed

    private final RedisClusterClient cluster;
    private final StatefulRedisClusterPubSubConnection<String, String> base;
    private final String name;
    private final Consumer<String> hear;
    private final Consumer<String> doubt;
    private final Predicate<String> needs;
    private final Runnable broken; // called when the base connection has to be made anew
    private final Consumer<Partitions> moved; // tells the connections for commands the new topology
    private final Map<String, Shard> all = new ConcurrentHashMap<>(); // by the node's id

    Shards(RedisClusterClient cluster, StatefulRedisClusterPubSubConnection<String, String> base, String name, Consumer<String> hear,
            Consumer<String> doubt, Predicate<String> needs, Runnable broken, Consumer<Partitions> moved) {
        this.cluster = cluster;
        this.base = base;
        this.name = name;
        this.hear = hear;
        this.doubt = doubt;
        this.needs = needs;
        this.broken = broken;
        this.moved = moved;
    }

    /** The channel for this key, once its subscription is confirmed. */
    CompletableFuture<String> channelOf(String key) {
        int slot = slot(key);
        Shard known = all.getOrDefault(String.valueOf(node(slot)), null);
        if (known != null) return known.use();
        return refreshed().handle((done, error) -> node(slot)).thenCompose(node -> node == null
                ? CompletableFuture.failedFuture(new RedisException("no node of the cluster is known to have " + key)) : shard(node).use());
    }

    /** Refreshes the topology. If Lettuce waits for a node that is silent, another node is asked which node has which slots. */
    private CompletableFuture<Void> refreshed() {
        var known = cluster.getPartitions();
        return cluster.refreshPartitionsAsync().toCompletableFuture().copy().orTimeout(REFRESH_MS, TimeUnit.MILLISECONDS).exceptionallyCompose(late -> {
            var told = new CompletableFuture<String>();
            for (var node : known) {
                base.getConnectionAsync(node.getNodeId()).thenCompose(made -> made.async().clusterNodes()).thenAccept(told::complete);
            }
            return told.orTimeout(REFRESH_MS, TimeUnit.MILLISECONDS).thenAccept(nodes -> {
                for (var each : ClusterPartitionParser.parse(nodes)) {
                    var node = known.getPartitionByNodeId(each.getNodeId());
                    if (node == null) continue; // Lettuce's own refresh will add the node
                    node.setFlags(each.getFlags());
                    node.setSlots(each.getSlots());
                }
                known.updateCache();
                moved.accept(known);
            });
        });
    }

    private static int slot(String key) {
        return SlotHash.getSlot(key.getBytes(StandardCharsets.UTF_8));
    }

    private String node(int slot) {
        var node = cluster.getPartitions().getPartitionBySlot(slot);
        return node == null ? null : node.getNodeId();
    }

    private Shard shard(String node) {
        boolean[] made = {false};
        Shard shard = all.computeIfAbsent(node, absent -> {
            made[0] = true;
            int tag = 0;
            while (tag < TAGS && !node.equals(node(slot("" + tag)))) tag++; // if all its slots leave meanwhile, no tag is found
            return new Shard(node, name + ":{" + tag + "}");
        });
        if (made[0]) shard.open();
        return shard;
    }

    /** The base connection has ended: all that use or await a channel ask again. */
    void end() {
        all.values().forEach(shard -> shard.lost(new RedisException("the subscription is lost")));
    }

    /** Called from time to time: gives up silent subscriptions, and closes those that nobody needs. */
    void look() {
        all.values().forEach(Shard::look);
    }

    private final class Shard extends RedisPubSubAdapter<String, String> implements RedisConnectionStateListener {
        private final String node;
        private final String channel;
        private final CompletableFuture<String> opened = new CompletableFuture<>();
        private volatile StatefulRedisPubSubConnection<String, String> connection;
        private volatile long used = System.nanoTime();

        Shard(String node, String channel) {
            this.node = node;
            this.channel = channel;
        }

        CompletableFuture<String> use() {
            used = System.nanoTime();
            return opened;
        }

        /** Subscribes. SUBSCRIBE hears other nodes while a slot moves, and all messages if the user lacks the right for SSUBSCRIBE. */
        void open() {
            CompletableFuture.completedFuture(node).thenCompose(base::getConnectionAsync).thenCompose(made -> {
                if (!made.isOpen()) throw new RedisException("the connection to a node of the cluster is lost");
                connection = made;
                made.addListener((RedisConnectionStateListener) this);
                made.addListener((RedisPubSubListener<String, String>) this);
                var inShard = made.async().ssubscribe(channel).toCompletableFuture().handle((done, error) -> {
                    if (error != null && !LockException.says(error, "NOPERM")) throw new RedisException(error);
                    return null;
                });
                return CompletableFuture.allOf(inShard, made.async().subscribe(channel).toCompletableFuture());
            }).orTimeout(ANSWER_MS, TimeUnit.MILLISECONDS).whenComplete((done, error) -> {
                if (error == null) opened.complete(channel);
                else lost(LockException.says(error, "") ? error : new RedisException(error)); // Closed, if it was closed meanwhile
            });
        }

        private void lost(Throwable error) {
            if (!all.remove(node, this)) return;
            leave();
            if (connection != null && LockException.isSilence(error) && !Connections.cut(connection)) broken.run();
            if (!opened.completeExceptionally(error)) doubt.accept(channel);
        }

        /** Leaves the channel. The connection stays, and may serve another channel. */
        private void leave() {
            var made = connection;
            if (made == null) return;
            made.removeListener((RedisConnectionStateListener) this);
            made.removeListener((RedisPubSubListener<String, String>) this);
            made.async().sunsubscribe(channel);
            made.async().unsubscribe(channel);
        }

        void look() {
            if (!opened.isDone()) return;
            if (System.nanoTime() - used > IDLE) {
                if (!needs.test(channel)) {
                    if (all.remove(node, this)) leave();
                    return;
                }
                use();
            }
            connection.async().ping().toCompletableFuture().copy().orTimeout(ANSWER_MS, TimeUnit.MILLISECONDS).whenComplete((pong, error) -> {
                if (error != null) lost(error);
            });
        }

        @Override
        public void message(String from, String message) {
            hear.accept(message);
        }

        @Override
        public void smessage(String from, String message) {
            hear.accept(message);
        }

        @Override
        public void sunsubscribed(String from, long count) {
            if (from.equals(channel)) lost(new RedisException("the slot of the channel has moved"));
        }

        @Override
        public void onRedisDisconnected(RedisChannelHandler<?, ?> lost) {
            lost(new RedisException("the subscription is lost"));
        }
    }
}
