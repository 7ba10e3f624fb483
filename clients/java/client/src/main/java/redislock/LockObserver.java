package redislock;

import java.time.Duration;
import java.util.List;

/**
 * Is told what becomes of each acquire: after {@link #waiting}, either {@link #acquired} or {@link #refused}; after {@link #acquired}, either
 * {@link #released} or {@link #lost}. The methods run in the thread that acquires or releases; only {@link #lost} runs where {@link Held#lost}
 * completes. Exceptions that they throw are logged. A thread that enters a {@link Locks#lock} again causes no calls.
 */
public interface LockObserver {
    /** How many can hold the locks together: one, any number of readers, or as many as {@link Options#limit} says. */
    enum Mode { EXCLUSIVE, SHARED, LIMIT }

    /** How an acquire ends without the lock. */
    enum Outcome {
        /** The time of its wait was over. */
        TIMEOUT,
        /** Somebody else holds a lock, and the acquire did not want to wait. */
        BUSY,
        /** The waiting thread was interrupted. */
        CANCELLED,
        /** The wait would never have ended. */
        DEADLOCK,
        /** The {@link Locks} were closed. */
        CLOSED,
        /** Any other error. */
        ERROR
    }

    /** Somebody else holds one of the locks, so this acquire waits. Not called if it gets them at once, or does not want to wait. */
    default void waiting(List<String> keys, Mode mode) {}

    /** The locks are held. `waited` counts from the call of acquire. */
    default void acquired(List<String> keys, Mode mode, Duration waited, long fence) {}

    /** The acquire has ended with this exception. */
    default void refused(List<String> keys, Mode mode, Duration waited, Outcome outcome, Exception reason) {}

    /** The locks were given back, by the user or by {@link Locks#close}. */
    default void released(List<String> keys, Mode mode, Duration held) {}

    /** The locks ended without a release. */
    default void lost(List<String> keys, Mode mode, Duration held, LockException.Lost reason) {}
}
