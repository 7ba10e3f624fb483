package redislock;

import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;

/** Keeps locks: sends extensions, and checks whether locks in doubt are still held. */
final class Renewal {
    private final Core core;

    Renewal(Core core) {
        this.core = core;
    }

    /** Runs the work after the extension before it: of two at once, nobody could tell which came last. Starts without the mutex. */
    private <T> CompletableFuture<T> inTurn(Held held, Supplier<CompletableFuture<T>> work) {
        var done = new CompletableFuture<Void>();
        var before = core.locked(() -> {
            var last = held.turn;
            held.turn = done;
            return last;
        });
        return before.thenCompose(turn -> work.get()).whenComplete((reply, error) -> done.complete(null));
    }

    /** Sends an extension. In doubt, acquires the lock again instead, so that the server learns the channel and connection anew. */
    void renew(Held held) {
        inTurn(held, () -> {
            Request request = held.request;
            boolean[] asks = {false};
            Request.Words words = core.locked(() -> {
                if (held.state != Held.State.HELD) return null;
                asks[0] = held.doubted;
                held.doubted = false;
                if (!asks[0]) return held.renewing ? extension(held) : null; // null: another one came first, and has planned the next
                core.departs(held);
                // An acquire never makes a lease shorter, so 1 ms leaves it as it is.
                return request.acquire(request.kept || held.unclaimed ? request.lease() : 1);
            });
            if (words == null) return CompletableFuture.completedFuture(null);
            return core.connections.send(words, asks[0] && request.session).handle((reply, error) -> {
                core.locked(() -> {
                    held.renewing = false;
                    core.lands(held);
                    answered(held, asks[0], reply, error, words.sent);
                    return null;
                });
                return null;
            });
        });
    }

    private void answered(Held held, boolean asks, Object reply, Throwable error, long began) {
        boolean holds = held.state == Held.State.HELD;
        List<Long> fences = asks && reply instanceof List<?> grant ? Held.numbers(grant.get(1)) : List.of();
        if (error != null) {
            held.doubted |= asks || LockException.says(error, "GRACE");
            if (LockException.isGone(error)) {
                core.gone(held, error.getMessage());
            } else if (holds) {
                core.plan(held, System.nanoTime() + Math.min(TimeUnit.SECONDS.toNanos(1), held.lease / 10));
            }
        } else if (asks && !fences.equals(held.fences)) {
            core.gone(held, "it was free, or someone else's, meanwhile");
            core.leaving.giveBack(held.request, fences);
        } else if (!holds) {
            if (asks && held.state != Held.State.LEAVING) core.leaving.giveBack(held.request, fences);
        } else {
            renewed(held, asks ? ((List<?>) reply).get(3) : reply, began);
            if (held.doubted) core.plan(held, System.nanoTime());
        }
    }

    /** Reads the lease in an answer, and plans the next renewal. The caller has the mutex. */
    void renewed(Held held, Object leaseMs, long began) {
        if (held.state != Held.State.HELD) return;
        held.renewing = false;
        long before = held.until - System.nanoTime() + began; // less the time that the answer took
        held.until = Core.never();
        held.due = Core.never();
        long lease = TimeUnit.MILLISECONDS.toNanos((Long) leaseMs);
        if (lease < 0) return; // somebody used PERSIST, so the lease never ends
        long sure = Math.min(lease, held.atMost - began);
        held.until = began + sure;
        held.unclaimed = false;
        // The maximum age only cuts a new lease. If the end moved back, the server's default lease was changed instead.
        boolean isOther = began + lease - before < -TimeUnit.MILLISECONDS.toNanos(1);
        long asked = held.request.lease() == 0 ? isOther ? 0 : held.given : TimeUnit.MILLISECONDS.toNanos(held.request.lease());
        held.aged = held.request.kept && lease < asked;
        if (!held.aged) held.given = lease;
        held.lease = held.request.lease() == 0 ? lease : TimeUnit.MILLISECONDS.toNanos(held.request.lease());
        // A lease that comes out short has reached the maximum age, and no renewal makes it longer.
        if (held.request.kept && lease >= asked / 2) held.due = began + sure / 3;
        core.plan(held, held.due);
        shorten(held, began, sure);
    }

    /** Makes an extension, and notes its lease: the server may set it without an answer. Before the claim, its length is unknown. */
    private Request.Words extension(Held held) {
        long ms = held.request.lease();
        if (ms > 0 || !held.unclaimed) {
            held.sets = ms > 0 ? TimeUnit.MILLISECONDS.toNanos(ms) : held.lease;
            shorten(held, System.nanoTime(), held.sets);
        }
        core.departs(held);
        return held.request.extend(held.fences);
    }

    /** Applies a shorter lease to all that share the grant. The server may handle their pending commands before or after this. */
    private void shorten(Held held, long began, long lease) {
        for (Held each : core.sharers(held)) {
            if (began + lease - each.atMost < 0) each.atMost = began + lease;
            if (each.state != Held.State.HELD || began + lease - each.until >= 0) continue;
            each.until = began + lease;
            boolean sooner = each.request.kept && began + lease / 3 - each.due < 0;
            core.plan(each, sooner ? began + lease / 3 : each.due);
        }
    }

    Duration extend(Held held, long ms) {
        CompletableFuture<Duration> given = inTurn(held, () -> {
            Request.Words words = core.locked(() -> {
                held.refuseUnlessHeld();
                if (ms > 0) {
                    held.request.lease(ms);
                    held.lease = TimeUnit.MILLISECONDS.toNanos(ms);
                }
                return extension(held);
            });
            return core.connections.send(words, false).handle((reply, error) -> core.locked(() -> {
                core.lands(held);
                if (error != null && LockException.isGone(error)) core.gone(held, error.getMessage());
                if (held.why != null) throw held.lostException();
                if (error != null) throw LockException.explained(error, held.request);
                renewed(held, reply, words.sent);
                return Duration.ofMillis((Long) reply);
            }));
        });
        Core.await(given, Core.LONG);
        return LockException.join(given);
    }
}
