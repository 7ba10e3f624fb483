package redislock;

import io.lettuce.core.RedisCommandExecutionException;
import io.lettuce.core.RedisCommandTimeoutException;
import io.lettuce.core.RedisException;
import io.netty.channel.ConnectTimeoutException;
import java.io.IOException;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeoutException;

/** Why a lock could not be acquired or kept. All other errors, such as missing rights, are Lettuce's own exceptions. */
@SuppressWarnings("serial")
public abstract sealed class LockException extends RuntimeException {
    /** Errors of a server that can't serve the command at the moment, or is no longer the right one to ask. */
    private static final List<String> PASSING = List.of(
        "ASK", "BUSY", "CLUSTERDOWN", "LOADING", "MASTERDOWN", "MOVED", "NOREPLICAS Not enough", "READONLY", "TRYAGAIN", "UNBLOCKED");
    /** Errors of the server about a lock that is not held. */
    private static final List<String> GONE = List.of("NOTHELD", "WRONGTYPE");

    LockException(String message, Throwable cause) {
        super(message, cause);
    }

    /** The lock was not free until the wait was over. If the server could not be asked, the cause says why. */
    public static final class NotAcquired extends LockException {
        NotAcquired(Request request, Throwable trouble) {
            super(trouble == null ? request + " is not free"
                : "could not get " + request + ": " + cause(trouble).getMessage(), trouble == null ? null : cause(trouble));
        }
    }

    /** The lock has ended without a release, so somebody else may hold it now. */
    public static final class Lost extends LockException {
        private final String reason;

        /** With an error of the server, whose text contains the key. */
        Lost(Request request, String said) {
            super(request + " was lost: " + said, null);
            reason = GONE.stream().anyMatch(said::startsWith) ? "the server says that it is not held" : said;
        }

        /** Why the lock was lost, without the names of the locks. */
        public String reason() {
            return reason;
        }
    }

    /** The wait would never end, since each owner in the cycle waits for the next one. */
    public static final class Deadlock extends LockException {
        private final String cycle;

        Deadlock(String cycle, Throwable cause) {
            super("deadlock: " + cycle, cause);
            this.cycle = cycle;
        }

        /** Who waits for whom, in the words of the server. */
        public String cycle() {
            return cycle;
        }
    }

    /** Too few replicas confirmed the lock in time ({@link Options#sync}). */
    public static final class NotConfirmed extends LockException {
        NotConfirmed(Request request, Throwable cause) {
            super("too few replicas confirmed " + request, cause);
        }
    }

    /** The server has no lock commands. */
    public static final class NoModule extends LockException {
        NoModule(Throwable cause) {
            super("this server has no Redislock module: load libredislock.so into it (loadmodule), or connect to one that has it", cause);
        }
    }

    /** The server's module doesn't know an option. */
    public static final class TooOld extends LockException {
        TooOld(Throwable cause) {
            super("this server's Redislock doesn't know one of these options: upgrade the module, or leave the option out", cause);
        }
    }

    /** The {@link Locks} were closed, or their client. */
    public static final class Closed extends LockException {
        Closed() {
            super("these locks, or their client, were closed", null);
        }
    }

    /** Whether to ask again later: the connection is lost, or the server can't serve the command at the moment. */
    static boolean passes(Throwable error) {
        String said = said(error);
        if (said != null) return PASSING.stream().anyMatch(said::startsWith);
        Throwable cause = cause(error);
        return cause instanceof RedisException || cause instanceof IOException || cause instanceof CancellationException
            || cause instanceof TimeoutException;
    }

    /** Whether the server has not answered in time. Asking once more would take as long again. */
    static boolean isSilence(Throwable error) {
        for (Throwable each = error; each != null; each = each.getCause()) {
            if (each instanceof RedisCommandTimeoutException || each instanceof TimeoutException || each instanceof ConnectTimeoutException) return true;
        }
        return false;
    }

    static boolean isGone(Throwable error) {
        String said = said(error);
        return said != null && GONE.stream().anyMatch(said::startsWith);
    }

    static boolean isUnknownOption(Throwable error) {
        String said = said(error);
        return said != null && said.contains("syntax error");
    }

    static boolean says(Throwable error, String code) {
        String said = said(error);
        return said != null && said.startsWith(code);
    }

    /** Converts an error of the server to an exception of this package. Any other error is returned as it is. */
    static RuntimeException explained(Throwable error, Request request) {
        String said = said(error);
        Throwable cause = cause(error);
        if (said != null) {
            if (said.startsWith("NOTHELD")) return new Lost(request, said);
            if (said.startsWith("DEADLOCK ")) return new Deadlock(said.substring("DEADLOCK ".length()), cause);
            if (said.startsWith("NOREPLICAS") && request.sync()) return new NotConfirmed(request, cause);
            if (said.startsWith("GRACE")) return new NotAcquired(request, cause);
            if (said.toLowerCase(Locale.ROOT).contains("unknown command")) return new NoModule(cause);
            if (isUnknownOption(error)) return new TooOld(cause);
        }
        return cause instanceof RuntimeException own ? own : new RedisException(cause);
    }

    /** The result of a completed future, or its exception, thrown. */
    static <T> T join(CompletableFuture<T> done) {
        try {
            return done.join();
        } catch (CompletionException failed) {
            throw failed.getCause() instanceof RuntimeException own ? own : failed;
        }
    }

    private static Throwable cause(Throwable error) {
        boolean wraps = error instanceof CompletionException || error instanceof ExecutionException;
        return wraps && error.getCause() != null ? cause(error.getCause()) : error;
    }

    /** The message of the server, also if it refused the connection. */
    private static String said(Throwable error) {
        for (Throwable each = error; each != null; each = each.getCause()) {
            if (each instanceof RedisCommandExecutionException && each.getMessage() != null) return each.getMessage();
        }
        return null;
    }
}
