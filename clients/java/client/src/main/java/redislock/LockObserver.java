package redislock;

import java.time.Duration;
import java.util.List;

/**
 * Sees what becomes of each acquire: after {@link #waiting}, either {@link #acquired} or {@link #refused}; after {@link #acquired}, either
 * {@link #released} or {@link #lost}. Each runs in the thread that acquires or releases; only {@link #lost} runs where
 * {@link Held#lost} completes. What it throws is logged. A thread that enters a {@link Locks#lock} again is not seen.
 */
public interface LockObserver {
    /** How many can hold the locks together: one, any number of readers, or as many as {@link Options#limit} says. */
    enum Mode { EXCLUSIVE, SHARED, LIMIT }

    /** How an acquire ends without the lock. */
    enum Outcome {
        /** Its wait was over. */
        TIMEOUT,
        /** It did not want to wait. */
        BUSY,
        /** Its thread was interrupted. */
        CANCELLED,
        /** It would have waited for ever. */
        DEADLOCK,
        /** The {@link Locks} were closed. */
        CLOSED,
        /** Anything else. */
        ERROR
    }

    /** Somebody else holds one of the locks, so this acquire waits. Those that are granted at once, or don't want to wait, never do. */
    default void waiting(List<String> keys, Mode mode) {}

    /** The locks are held, after a time that includes the wait. */
    default void acquired(List<String> keys, Mode mode, Duration waited, long fence) {}

    /** The acquire has ended with that exception. */
    default void refused(List<String> keys, Mode mode, Duration waited, Outcome outcome, Exception reason) {}

    /** The user, or the end of the {@link Locks}, gave the locks back. */
    default void released(List<String> keys, Mode mode, Duration held) {}

    /** The locks ended without a release. */
    default void lost(List<String> keys, Mode mode, Duration held, LockException.Lost reason) {}
}
