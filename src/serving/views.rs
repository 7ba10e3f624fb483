//! What is shown of locks, waiters and sessions.

use super::state::STATE;
use crate::error::Error;
use crate::keyspace::LockKey;
use crate::lock::{Fence, Now, Owner};
use crate::server::{Arg, Ctx};
use crate::waiting::{At, WaiterInfo};

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

/// Whether a connection keeps the grant with that fence alive.
pub(crate) fn is_session_alive(ctx: &Ctx<'_>, key: Arg<'_>, fence: Fence) -> bool {
    let at = at(ctx, key);
    STATE.with(|state| state.is_alive(at, fence))
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
