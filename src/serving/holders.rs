//! Looks up the holders of any lock with waiters, even if the running command does not name the lock's key. The server does not count the
//! lookup as a use of the key.

use std::sync::Arc;

use super::table::TABLE;
use crate::keyspace::LockKey;
use crate::server::{Arg, Ctx};
use rules::lock::{Deadline, Grant, Now, Owner};
use rules::waiting::{self, Holder, LockId};

/// The holders of a lock with waiters.
#[derive(Default)]
pub(crate) struct Holders {
    pub(crate) count: usize,
    /// The holders with the oldest grants.
    pub(crate) first: Vec<HolderInfo>,
    /// If the lock is free, the owner for whom it is reserved: that of the first waiter, if this waiter needs other locks, too.
    pub(crate) reserved_for: Option<Owner<'static>>,
}

pub(crate) struct HolderInfo {
    pub(crate) grant: Grant,
    pub(crate) deadline: Deadline,
    /// The id of the client whose session keeps the grant alive; `None` if the grant has no session.
    pub(crate) client: Option<u64>,
    /// The address for messages to the holder, if there is one.
    pub(crate) address: Option<Arc<[u8]>>,
}

/// Returns the holders of a lock in any database, with at most `most` of them in `first`.
pub(super) fn holders_of(ctx: &Ctx<'_>, id: &LockId, most: usize, now: Now) -> Holders {
    holders_by(ctx, id, |lock| holders(lock, most, now))
}

/// Returns the holders of a lock in any database. `read` returns their number, and the holders for `first`.
pub(super) fn holders_by(
    ctx: &Ctx<'_>,
    id: &LockId,
    read: impl FnOnce(&LockKey<'_>) -> (usize, Vec<Holder>),
) -> Holders {
    let (count, held) = peek(ctx, id, read).unwrap_or_default();
    TABLE.with(|table| {
        let with_client = |Holder { grant, deadline }| {
            let (at, fence) = (id.to_ref(), grant.fence());
            let (client, address) = (table.keeper(at, fence), table.address(at, fence));
            HolderInfo { grant, deadline, client, address }
        };
        let first: Vec<HolderInfo> = held.into_iter().map(with_client).collect();
        let reserved_for = if first.is_empty() { table.reserved_for(id.to_ref()) } else { None };
        Holders { count, first, reserved_for }
    })
}

/// Calls `read` on a lock in any database, and returns its result; `None` if the key has another type.
pub(super) fn peek<R>(ctx: &Ctx<'_>, id: &LockId, read: impl FnOnce(&LockKey<'_>) -> R) -> Option<R> {
    let peek = |key: Arg<'_>| LockKey::peek(ctx, key).ok().map(|lock| read(&lock));
    ctx.in_db(id.db, || ctx.with_string(&id.key, peek)).flatten()
}

/// Returns the number of holders, and at most `most` holders: those with the oldest grants.
fn holders(lock: &LockKey<'_>, most: usize, now: Now) -> (usize, Vec<Holder>) {
    let (value, until, now) = (lock.value(), lock.deadline(), now.millis());
    // A lapsed grant does not count. But it stays in the value until a timer ends it, which takes long while clients are paused.
    let count = value.map_or(0, |value| value.count().saturating_sub(value.lapsed(until, now).count()));
    (count, waiting::holders(value, until, now, most))
}
