//! Grants that live as long as a connection: renewed while it is open, released when it closes.
//!
//! The lease is still the truth: a session only moves it, a third of the lease at a time, so that it lapses by itself if
//! this server dies. Nothing of a session is saved or replicated; an owner that comes back says so (`ONCE SESSION`).

use super::hand_over::pass_on;
use super::waiter::{Place, Session, Told};
use super::{STATE, grace, listen, tick, touched};
use crate::config;
use crate::error::Error;
use crate::info;
use crate::keyspace::LockKey;
use crate::lock::{self, Deadline, Fence, Micros, Millis};
use crate::server::{self, Arg, Ctx, client_exists};

/// A lease is renewed when a third of it has gone by. Renewals that are due within a thirtieth of the lease are made in
/// one pass.
const RENEWALS_PER_LEASE: Millis = 3;
const PASSES_PER_LEASE: Millis = 30;

/// Whether the client of the running command has a connection that a session can live as long as, on a server that
/// renews and releases.
pub(crate) fn can_start(ctx: &Ctx<'_>) -> Result<(), Error> {
    if ctx.is_replica() {
        Err(Error::SessionOnReplica)
    } else if ctx.is_script() || !client_exists(ctx.client_id()) {
        Err(Error::SessionInScript)
    } else {
        Ok(())
    }
}

/// Binds the grant with that fence to the connection of the running command's client, and to no other.
pub(crate) fn start(ctx: &Ctx<'_>, key: Arg<'_>, fence: Fence, lease: Millis, now: Micros) {
    STATE.with(|state| state.take_sessions_over(fence));
    bind(ctx, ctx.db(), key.bytes(), ctx.client_id(), fence, lease, now);
}

/// Binds the grant of a waiter to its connection, now that it is told: one that is never told has no session.
pub(super) fn bind_told(ctx: &Ctx<'_>, told: &Told, fence: Fence) {
    let Place { db, key } = &told.place;
    // Its grant may have ended in the same step, and the next one have a session.
    let later = STATE.with(|state| state.session(*db, key)).is_some_and(|session| session.fence > fence);
    if told.ask.session && !later {
        bind(ctx, *db, key, told.client_id, fence, told.ask.lease, server::now());
        // Or nobody has the lock now, or one without a session. Or its lease is shorter than was asked, since the longest
        // there can be is.
        touched(*db, key);
    }
}

/// Binds the grant with that fence to a connection.
fn bind(ctx: &Ctx<'_>, db: i32, key: &[u8], client: u64, fence: Fence, lease: Millis, now: Micros) {
    listen(ctx);
    let renew_at = next_renewal(lease, now / 1000);
    let session = Session { client, fence, lease, renew_at, over: false };
    STATE.with(|state| state.start_session(db, key, session));
    tick::arm();
}

/// Whether a connection keeps the grant with that fence alive.
pub(crate) fn is_alive(ctx: &Ctx<'_>, key: Arg<'_>, fence: Fence) -> bool {
    let db = ctx.db();
    let session = STATE.with(|state| state.session(db, key.bytes()));
    session.is_some_and(|session| session.fence == fence && !session.over)
}

/// Does for the session of a lock what is due: renews the lease, or releases the grant of a closed connection.
pub(super) fn settle(ctx: &Ctx<'_>, lock: &mut LockKey<'_>, now: Micros) {
    let (db, key) = (ctx.db(), lock.name());
    let Some(session) = STATE.with(|state| state.session(db, key.bytes())) else { return };
    let Some(held) = lock.held().filter(|held| held.grant.fence() == session.fence) else {
        STATE.with(|state| state.end_session(db, key.bytes()));
        return;
    };
    let (now, start) = (now / 1000, server::lease_start(now));
    // Somebody may have cut the lease short: then it ends before it would be renewed.
    let renew = session.renew_at <= now || held.deadline < Deadline::At(session.renew_at);
    // The server tells of each connection that closes. What is renewed for ever must not stand on that alone.
    if session.over || renew && !client_exists(session.client) {
        // Some servers tell only after the timers have rung: then the session is that waiter's.
        if STATE.with(|state| state.has_heir(session.fence)) {
            return;
        }
        info::SESSIONS_ENDED.count();
        pass_on(ctx, lock, c"lock.released");
        return;
    }
    if renew {
        let lease = session.lease.min(config::max_lease());
        let holds = held.grant.holds();
        let deadline = lock::lengthen(held, lease, grace::limits(), start);
        lock.update(ctx, holds, deadline);
        let renew_at = next_renewal(lease, now);
        STATE.with(|state| state.start_session(db, key.bytes(), Session { renew_at, ..session }));
    } else {
        STATE.with(|state| state.alarm_at(db, key.bytes(), session.renew_at));
    }
}

/// When a session is to look at its lease, which has been set to so many ms from now: before it ends.
pub(super) fn look_again(left: Millis, now: Millis) -> Millis {
    now.saturating_add(left / RENEWALS_PER_LEASE)
}

fn next_renewal(lease: Millis, now: Millis) -> Millis {
    let pass = (lease / PASSES_PER_LEASE).max(1);
    let due = now.saturating_add(lease / RENEWALS_PER_LEASE);
    (due - due % pass).max(now.saturating_add(1))
}
