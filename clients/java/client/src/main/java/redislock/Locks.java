package redislock;

import io.lettuce.core.AbstractRedisClient;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.locks.Lock;
import java.util.concurrent.locks.ReadWriteLock;
import java.util.function.Consumer;
import java.util.function.Supplier;

/**
 * Locks of a Redis or Valkey server with the module Redislock, for programs that use Lettuce. Make one for the process, and share it between
 * all threads. docs/protocol.md describes the protocol.
 */
public final class Locks implements AutoCloseable {
    private static final Consumer<Options> NONE = options -> {};

    final Map<ThreadLock.Seat, ThreadLock.Hold> holds = new ConcurrentHashMap<>();
    private final Supplier<? extends AbstractRedisClient> client;
    private final LockObserver observer;
    private volatile Core core;

    /** The client is a RedisClient (of Sentinel, too) or a RedisClusterClient. It stays open when the locks are closed. */
    public Locks(AbstractRedisClient client) {
        this(client, null);
    }

    /** As {@link #Locks(AbstractRedisClient)}, with an observer that is told what becomes of each acquire. */
    public Locks(AbstractRedisClient client, LockObserver observer) {
        this(() -> client, observer);
    }

    /** For programs that {@link #reopen} the locks: each time, the supplier gives the client to use. */
    public Locks(Supplier<? extends AbstractRedisClient> client) {
        this(client, null);
    }

    /** As {@link #Locks(Supplier)}, with an observer that is told what becomes of each acquire. */
    public Locks(Supplier<? extends AbstractRedisClient> client, LockObserver observer) {
        this.client = client;
        this.observer = observer;
        core = new Core(client.get(), observer);
    }

    /** Waits for a lock, without a time limit. */
    public Held acquire(String key) throws InterruptedException {
        return acquire(key, NONE);
    }

    /** Waits for a lock, for example {@code acquire("k", o -> o.wait(Duration.ofSeconds(10)))}. */
    public Held acquire(String key, Consumer<Options> options) throws InterruptedException {
        return acquire(List.of(key), options);
    }

    /** Waits for several locks at once, all or none. */
    public Held acquire(List<String> keys, Consumer<Options> options) throws InterruptedException {
        return core.acquire(new Request(keys, options), true);
    }

    /** Asks once, without waiting: the result is empty if somebody else holds the lock. */
    public Optional<Held> tryAcquire(String key) {
        return tryAcquire(key, NONE);
    }

    /** Asks once, without waiting: the result is empty if somebody else holds the lock. */
    public Optional<Held> tryAcquire(String key, Consumer<Options> options) {
        try {
            return Optional.of(acquireUninterruptibly(key, options.andThen(o -> o.wait(Duration.ZERO))));
        } catch (LockException.NotAcquired others) {
            return Optional.empty();
        }
    }

    Held acquireUninterruptibly(String key, Consumer<Options> options) {
        try {
            return core.acquire(new Request(List.of(key), options), false);
        } catch (InterruptedException impossible) {
            throw new IllegalStateException(impossible);
        }
    }

    /** A lock that belongs to the thread that locks it. This thread can lock it again. */
    public Lock lock(String key) {
        return lock(key, NONE);
    }

    /** A lock that belongs to the thread that locks it, which can lock it again. Its methods set how long to wait, not the options. */
    public Lock lock(String key, Consumer<Options> options) {
        return new ThreadLock(this, key, false, options);
    }

    /** A lock for many reading threads of all processes, or for one writing thread. */
    public ReadWriteLock readWriteLock(String key) {
        return readWriteLock(key, NONE);
    }

    /** A lock for many reading threads of all processes, or for one writing thread. */
    public ReadWriteLock readWriteLock(String key, Consumer<Options> options) {
        return new ThreadLock.ReadWrite(this, key, options);
    }

    /** The {@link Held} that this thread has by a {@link Lock} of this key: for its fence, for example. */
    public Optional<Held> heldByThread(String key) {
        return Optional.ofNullable(holds.get(new ThreadLock.Seat(key, Thread.currentThread()))).map(hold -> hold.held);
    }

    /** Releases what is held, and ends all waits. */
    @Override
    public void close() {
        core.close();
    }

    /** Makes closed locks usable again: for a program that stops and starts again in one process. */
    public void reopen() {
        var last = core;
        if (last.locked(() -> last.closed)) core = new Core(client.get(), observer);
    }
}
