package redislock;

import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;

/** Gives up grants and places. While the server can't be asked, it tries again until the lease would be over anyway. */
final class Leaving {
    private static final long PARTING = TimeUnit.MILLISECONDS.toNanos(40); // the longest that a caller waits for a place to be given up

    private final Core core;

    Leaving(Core core) {
        this.core = core;
    }

    void release(Held held) {
        boolean first = begin(held);
        // The release of a session may be sent for longer than the caller waits, which is until the end of the lease.
        Core.await(held.over, held.request.session ? core.locked(() -> held.until) - System.nanoTime() : Core.LONG);
        if (first) held.left();
        if (held.why != null) throw held.lostException(); // never changes once it is set
        if (held.over.isDone()) LockException.join(held.over);
    }

    /** Begins the release, if the lock is held. Returns false if it is not, or if the release has begun before. */
    boolean begin(Held held) {
        boolean first = core.locked(() -> {
            core.checkLease(held);
            if (held.state != Held.State.HELD) return false;
            leave(held);
            return true;
        });
        if (first) part(held);
        return first;
    }

    /** Ends a wait that got no lock. The answer to its last acquire may still come. */
    void end(Held held, CompletableFuture<Object> coming) {
        core.locked(() -> {
            leave(held);
            if (!held.used) giveBack(held.request, held.left);
            return null;
        });
        if (coming == null) {
            part(held);
        } else {
            coming.whenComplete((reply, error) -> {
                core.locked(() -> {
                    held.note(reply, error);
                    limit(held);
                    // Others may have left meanwhile, without this grant: each of them releases the grant that it knows, or only its place.
                    Held leaver = held.fences.isEmpty() ? null : core.partner(held, Held.State.LEAVING);
                    Held heir = held.used ? core.partner(held, Held.State.WAITING, Held.State.HELD) : null;
                    if (heir != null) inherit(heir, held.fences, held.place || held.unsure);
                    else held.used = held.used && leaver != null && leaver.fences.equals(held.fences);
                    return null;
                });
                part(held);
            });
        }
        Core.await(held.over, PARTING);
    }

    /** With the mutex. Decides which Held gives up a grant that several share: the last one to leave. */
    private void leave(Held held) {
        Held other = core.partner(held, Held.State.WAITING, Held.State.HELD);
        boolean place = held.state == Held.State.WAITING && (held.place || held.unsure);
        held.used = other != null;
        held.state = Held.State.LEAVING;
        limit(held);
        List<Long> left = held.fences.isEmpty() ? held.left : held.fences;
        if (other != null) inherit(other, left, place);
    }

    /** With the mutex. Makes the heir give up this grant or place, unless the heir gets a grant of its own. */
    private static void inherit(Held heir, List<Long> fences, boolean place) {
        heir.place |= place;
        if (heir.fences.isEmpty() && !fences.isEmpty()) heir.left = fences;
    }

    /** With the mutex. Sets until when a release is tried. */
    private static void limit(Held held) {
        long most = System.nanoTime() + held.lease;
        if (most - held.until < 0) held.until = most;
    }

    /** With the mutex. Releases a grant that nobody wants. */
    void giveBack(Request request, List<Long> fences) {
        var other = new Held(core, request, null);
        other.fences = fences;
        other.state = Held.State.LEAVING;
        if (fences.isEmpty()) return;
        Held heir = core.partner(other, Held.State.WAITING, Held.State.HELD);
        if (heir != null) {
            inherit(heir, fences, false);
            return;
        }
        limit(other);
        core.register(other); // a new acquire of this owner waits for it
        core.timer.execute(() -> part(other));
    }

    private void part(Held held) {
        part(held, false);
    }

    private void part(Held held, boolean again) {
        Request request = held.request;
        CompletableFuture<Object> sent;
        int breaks = core.connections.breaks();
        if (held.used || held.fences.isEmpty() && !held.place && !held.unsure) {
            sent = CompletableFuture.completedFuture(null);
        } else if (!held.fences.isEmpty()) {
            sent = core.connections.send(request.release(held.fences), false);
        } else {
            // Without a place, there may be a grant whose start message is still on its way; of several locks, some may be held beside the place.
            // But if the caller named the owner, this owner may hold them in another process.
            sent = core.connections.send(request.leave(), false).thenCompose(left -> (request.keys.size() > 1 || Long.valueOf(0).equals(left))
                && (held.unsure || request.starts) && !request.named ? core.connections.send(request.release(List.of()), false) : CompletableFuture.completedFuture(null));
        }
        sent.whenComplete((reply, error) -> {
            boolean twice = again || breaks != core.connections.breaks();
            // The server renews a session's lease for as long as the connection is open.
            boolean goesOn = request.session && !core.locked(() -> core.closed) || System.nanoTime() - held.until < 0;
            if (error != null && LockException.passes(error) && goesOn) {
                core.timer.schedule(() -> part(held, true), Core.TRY_AGAIN, TimeUnit.NANOSECONDS);
            } else if (error == null) {
                boolean missing = !twice && reply instanceof List<?> holds && holds.contains(null);
                over(held, missing ? new LockException.Lost(request, "one of the locks was gone when it was released") : null);
            } else if (LockException.passes(error) || twice && LockException.isGone(error)) {
                // Success or not: the lease is over, or an earlier try has worked.
                over(held, LockException.passes(error) && core.locked(() -> core.closed) ? new LockException.Closed() : null);
            } else {
                over(held, LockException.explained(error, request));
            }
        });
    }

    void over(Held held, RuntimeException error) {
        core.locked(() -> {
            held.state = Held.State.OVER;
            core.forget(held);
            core.wakeAll(held.request.owner); // the command may have ended their places, too
            return null;
        });
        if (error == null) held.over.complete(null);
        else held.over.completeExceptionally(error);
    }
}
