//! Clients blocked in `LOCK.ACQUIRE ... BLOCK`: who waits where, handover, lapse, departures.
//!
//! The rules, which each function here keeps:
//!
//! - A lock with a queue is never free for longer than the step that freed it. Whoever ends a grant calls `pass_on`;
//!   whoever finds the lock free with a queue (it lapsed, was deleted, flushed, overwritten) calls `settle`, and does so
//!   before anything else, so that no newcomer slips in.
//! - Anything else that can touch a lock (events of the keyspace, a database flushed or swapped) only rings an alarm
//!   for it. The alarm calls `settle`, which looks at what is there now: it does not matter what happened.
//! - The grant is made in the step that freed the lock; its waiter is answered when the commands that have already
//!   arrived are done (`tick`). In between no other command can come between the grant and its answer: one that sends
//!   the waiter away (`CLIENT KILL`, `CLIENT UNBLOCK`) is seen, the grant is taken back, and the next one gets it.
//! - A waiter leaves the queue through `State::leave`, whatever the reason.
//!
//! Cost: a handover looks at the head of one queue. It does not grow with the waiters or the locks, but for the
//! logarithm in the trees of `state`.

mod departures;
mod grace;
mod hand_over;
mod sessions;
mod state;
mod tick;
mod waiter;

pub(crate) use departures::Departures;
pub(crate) use grace::{limits, may_grant, may_lengthen};
pub(crate) use hand_over::{pass_on, settle};
pub(crate) use sessions::{
    can_start as can_start_session, is_alive as is_session_alive, start as start_session,
};
pub(crate) use tick::Settle;
pub(crate) use waiter::WaiterInfo;

use crate::config;
use crate::error::Error;
use crate::lock::{Ask, Deadline, Fence, Millis};
use crate::server::{self, Arg, Blocked, Ctx, ServerCell, listen_to_keys};
use state::State;

static STATE: ServerCell<State> = ServerCell::new(State::new());

/// Puts the client of the running command into the queue of a lock that is another's until then. `false`: it cannot
/// wait here, and nothing has been done.
pub(crate) fn join(
    ctx: &Ctx<'_>,
    key: Arg<'_>,
    ask: Ask<'static>,
    timeout: Millis,
    until: Deadline,
) -> Result<bool, Error> {
    if !ctx.may_block() {
        return Ok(false);
    }
    let db = ctx.db();
    let waiting = STATE.with(|state| state.waiters_of(db, key.bytes()));
    let most = config::MAX_WAITERS.get();
    if most > 0 && waiting as i64 >= most {
        return Err(Error::MaxWaiters);
    }
    listen(ctx);
    let ticket = STATE.with(State::next_ticket);
    let parked_on = companion(key.bytes(), ctx.is_cluster());
    let Some(client) = Blocked::new::<Departures>(ctx, &parked_on, ticket.into()) else {
        return Ok(false);
    };
    let client_id = ctx.client_id();
    STATE.with(|state| state.join(db, key.bytes(), ticket, ask, client, client_id, timeout));
    lease_moved(ctx, key, until);
    tick::arm();
    Ok(true)
}

/// Has the server tell of changed keys from now on. Most servers never need to know: only of a lease that is cut short under
/// a waiter or a session there is no other sign.
fn listen(ctx: &Ctx<'_>) {
    if !STATE.with(|state| std::mem::replace(&mut state.listening, true)) {
        listen_to_keys::<Departures>(ctx);
    }
}

/// Takes note of when the lease of a lock ends, so that a lapse is found when it happens.
pub(crate) fn lease_moved(ctx: &Ctx<'_>, key: Arg<'_>, until: Deadline) {
    let Deadline::At(last) = until else { return };
    if !idle() {
        let db = ctx.db();
        // The key expires after its last millisecond.
        let next = last.saturating_add(1);
        STATE.with(|state| {
            if state.waiters_of(db, key.bytes()) > 0 {
                state.alarm_at(db, key.bytes(), next);
            }
            if state.session(db, key.bytes()).is_some_and(|session| last < session.renew_at) {
                let now = server::now() / 1000;
                state.alarm_at(db, key.bytes(), sessions::look_again(until.left(now), now));
            }
        });
        tick::arm();
    }
}

/// The client of the running command has been told of the hold of that grant, without a hold of its own.
pub(crate) fn share_hold(fence: Fence) {
    STATE.with(|state| state.share_hold(fence));
}

/// How many wait for a lock.
pub(crate) fn waiters_of(ctx: &Ctx<'_>, key: Arg<'_>) -> usize {
    if idle() {
        0
    } else {
        let db = ctx.db();
        STATE.with(|state| state.waiters_of(db, key.bytes()))
    }
}

/// How many clients wait for locks, and how many grants are kept alive by a connection.
pub(crate) fn totals() -> (u64, u64) {
    let (waiters, sessions) = STATE.with(|state| state.totals());
    (waiters as u64, sessions as u64)
}

/// Who waits for a lock, first come first.
pub(crate) fn queue_of(ctx: &Ctx<'_>, key: Arg<'_>) -> Vec<WaiterInfo> {
    let db = ctx.db();
    STATE.with(|state| state.queue_of(db, key.bytes()))
}

/// Whether nobody waits for a lock and no session keeps one, as on many servers at most times.
pub(crate) fn idle() -> bool {
    STATE.with(|state| state.is_idle())
}

/// Looks at a lock again, soon: something happened to its key.
pub(crate) fn touched(db: i32, key: &[u8]) {
    let rings = STATE.with(|state| !state.is_idle() && state.alarm_at(db, key, 0));
    if rings {
        tick::arm();
    }
}

/// The key that a waiter is blocked on: not the lock's own but a companion in the same slot, which nobody writes.
///
/// The server goes through all clients blocked on a key when that key is made anew, as a lock is after a lapse: with
/// the lock's own key that would be a call for each waiter. In a cluster the companion needs the lock's slot, since by
/// it the server sends waiters away when the slot moves; a few keys (no hash tag, but a `}`) have none that can be
/// named, and are their own.
fn companion(key: &[u8], cluster: bool) -> Vec<u8> {
    const SUFFIX: &[u8] = b"\0lock-waiters";
    if !cluster || has_hash_tag(key) {
        [key, SUFFIX].concat()
    } else if key.is_empty() || key.contains(&b'}') {
        key.to_vec()
    } else {
        [b"{", key, b"}", SUFFIX].concat()
    }
}

/// Whether the server takes only a part of the key, `{...}`, for its slot.
fn has_hash_tag(key: &[u8]) -> bool {
    let Some(open) = key.iter().position(|&byte| byte == b'{') else { return false };
    let tagged = key.iter().skip(open + 1).position(|&byte| byte == b'}');
    tagged.is_some_and(|len| len > 0)
}
