import com.google.gson.JsonElement;
import com.google.gson.annotations.SerializedName;
import java.time.Duration;
import java.util.List;
import redislock.LockException;
import redislock.Options;

/** A command, and the names of outcomes. */
final class Words {
    @SerializedName("do") String what;
    String task, kind, service, label, owner;
    List<String> urls, keys;
    Long wait, lease, max_hold;
    boolean shared, detect, session, observe;
    Boolean renew;
    Integer limit, slot;
    List<Long> sync;
    long at; // for the core alone, and these
    int command;
    String message;
    JsonElement reply;

    void options(Options options) {
        if (wait != null) options.wait(Duration.ofMillis(wait));
        if (lease != null) options.lease(Duration.ofMillis(lease));
        if (max_hold != null) options.maxHold(Duration.ofMillis(max_hold));
        if (shared) options.shared();
        if (detect) options.detect();
        if (session) options.session();
        if (renew != null) options.renew(renew);
        if (limit != null) options.limit(limit);
        if (slot != null) options.slot(slot);
        if (label != null) options.label(label);
        if (owner != null) options.owner(owner);
        if (sync != null) options.sync(sync.get(0).intValue(), Duration.ofMillis(sync.get(1)));
    }

    static String outcome(Throwable error) {
        return error instanceof LockException.NotAcquired ? "not acquired"
            : error instanceof LockException.Lost ? "lost"
            : error instanceof LockException.Closed ? "closed"
            : error instanceof LockException.Deadlock ? "deadlock"
            : error instanceof LockException.NotConfirmed ? "not confirmed"
            : error instanceof LockException.NoModule ? "no module"
            : error instanceof LockException.TooOld ? "too old"
            : error instanceof InterruptedException ? "cancelled"
            : "error";
    }
}
