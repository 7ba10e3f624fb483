package redislock.spring.boot;

import java.time.Duration;
import java.util.List;
import java.util.function.Consumer;
import redislock.LockException;
import redislock.LockObserver;

/** Several observers as one. */
record LockObservers(List<LockObserver> all) implements LockObserver {
    static LockObserver of(List<LockObserver> all) {
        return all.size() > 1 ? new LockObservers(all) : all.stream().findFirst().orElse(null);
    }

    @Override
    public void waiting(List<String> keys, Mode mode) {
        each(one -> one.waiting(keys, mode));
    }

    @Override
    public void acquired(List<String> keys, Mode mode, Duration waited, long fence) {
        each(one -> one.acquired(keys, mode, waited, fence));
    }

    @Override
    public void refused(List<String> keys, Mode mode, Duration waited, Outcome outcome, Exception reason) {
        each(one -> one.refused(keys, mode, waited, outcome, reason));
    }

    @Override
    public void released(List<String> keys, Mode mode, Duration held) {
        each(one -> one.released(keys, mode, held));
    }

    @Override
    public void lost(List<String> keys, Mode mode, Duration held, LockException.Lost reason) {
        each(one -> one.lost(keys, mode, held, reason));
    }

    /** Calls all observers, even if one fails. The first failure is thrown, so that it is logged. */
    private void each(Consumer<LockObserver> event) {
        RuntimeException failed = null;
        for (LockObserver one : all) {
            try {
                event.accept(one);
            } catch (RuntimeException error) {
                if (failed == null) failed = error;
                else failed.addSuppressed(error);
            }
        }
        if (failed != null) throw failed;
    }
}
