//! What is shown of locks, waiters and sessions.

use super::heartbeat;
use super::state::STATE;
use crate::error::Error;
use crate::keyspace::LockKey;
use crate::lock::{Deadline, Fence, Grant, Held, Millis, Now, Owner};
use crate::server::{Arg, Ctx};
use crate::waiting::{At, Page, Place, Ticket, WaiterInfo};

/// A lock as `LOCK.INFO` shows it.
pub(crate) fn look<'a>(ctx: &'a Ctx<'_>, key: Arg<'a>) -> Result<LockKey<'a>, Error> {
    Ok(LockKey::read(ctx, key)?)
}

fn at<'a>(ctx: &Ctx<'_>, key: Arg<'a>) -> At<'a> {
    At { db: ctx.db(), key: key.bytes() }
}

/// How many wait for a lock.
pub(crate) fn waiters_of(ctx: &Ctx<'_>, key: Arg<'_>) -> usize {
    let at = at(ctx, key);
    STATE.with(|state| state.waiters_of(at))
}

/// Who waits for a lock, first come first.
pub(crate) fn queue_of(ctx: &Ctx<'_>, key: Arg<'_>, now: Now) -> Vec<WaiterInfo> {
    let at = at(ctx, key);
    STATE.with(|state| state.queue_of(at, now))
}

/// For whom a free lock is reserved, who waits for others too.
pub(crate) fn reserved_for(ctx: &Ctx<'_>, key: Arg<'_>) -> Option<Owner<'static>> {
    let at = at(ctx, key);
    STATE.with(|state| state.reserved_for(at))
}

/// The connection that keeps the grant with that fence alive.
pub(crate) fn session_client(ctx: &Ctx<'_>, key: Arg<'_>, fence: Fence) -> Option<u64> {
    let at = at(ctx, key);
    STATE.with(|state| state.session_client(at, fence))
}

/// Those who wait for any lock, or for that one, and came after that waiter: so many, the longest wait first.
pub(crate) fn page(
    ctx: &Ctx<'_>,
    key: Option<Arg<'_>>,
    after: Option<Ticket>,
    count: usize,
    now: Now,
) -> Page {
    match key.map(|key| at(ctx, key)) {
        None => STATE.with(|state| state.page(after, count, now)),
        Some(at) => STATE.with(|state| state.page_of(at, after, count, now)),
    }
}

/// Who holds a lock that somebody waits for.
#[derive(Default)]
pub(crate) struct Holders {
    pub(crate) count: usize,
    /// Some of them, the oldest grant first.
    pub(crate) first: Vec<Holder>,
    /// Where it is free: the owner for whom it is reserved.
    pub(crate) reserved_for: Option<Owner<'static>>,
}

pub(crate) struct Holder {
    pub(crate) grant: Grant,
    pub(crate) deadline: Deadline,
    /// The connection that keeps the grant alive.
    pub(crate) client: Option<u64>,
}

/// Who holds a lock, so many at most: of any database, and no command need have been given its key. Looking leaves no trace.
pub(crate) fn holders_of(ctx: &Ctx<'_>, place: &Place, most: usize, now: Now) -> Holders {
    let look = || ctx.with_string(&place.key, |key| holders(ctx, key, most, now));
    let (count, held) = ctx.in_db(place.db, look).unwrap_or_default();
    STATE.with(|state| {
        let client = |grant: &Grant| state.session_client(place.at(), grant.fence());
        let with_client = |(grant, deadline)| Holder { client: client(&grant), grant, deadline };
        let first: Vec<Holder> = held.into_iter().map(with_client).collect();
        let reserved_for = if first.is_empty() { state.reserved_for(place.at()) } else { None };
        Holders { count, first, reserved_for }
    })
}

/// How many hold a lock of the selected database, and the first of them.
fn holders(ctx: &Ctx<'_>, key: Arg<'_>, most: usize, now: Now) -> (usize, Vec<(Grant, Deadline)>) {
    let Ok(lock) = LockKey::peek(ctx, key) else { return (0, Vec::new()) };
    let Some(value) = lock.value() else { return (0, Vec::new()) };
    // Of many whose leases are over only the first are passed over: an alarm is about to end them.
    let held = value.alive(lock.deadline(), now.millis()).take(most);
    let held: Vec<_> = held.map(|Held { grant, deadline }| (grant.clone(), deadline)).collect();
    (value.count(), held)
}

/// For how many ms more this server grants nothing new; a replica never does.
pub(crate) fn grace(ctx: &Ctx<'_>) -> Millis {
    if ctx.is_replica() { 0 } else { heartbeat::grace_left().grants }
}

/// How many clients wait for locks, and how many grants are kept alive by a connection.
pub(crate) fn totals() -> (u64, u64) {
    let (waiters, sessions) = STATE.with(|state| state.totals());
    (waiters as u64, sessions as u64)
}

/// How many places there are without a blocked client, in queues or with a grant to claim.
pub(crate) fn places() -> u64 {
    STATE.with(|state| state.places()) as u64
}
