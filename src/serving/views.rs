//! What commands and `INFO` show of locks, waiters and sessions; and the holders of any lock with waiters, even if the running command does
//! not name the lock's key. The server does not count this as a use of the key.

use std::sync::Arc;

use super::heartbeat;
use super::locks::TABLE;
use super::timers::Server;
use crate::keyspace::LockKey;
use crate::server::{Arg, BlockedClient, Ctx};
use rules::lock::{Deadline, Grant, Held, Millis, Now, Owner};
use rules::waiting::{self, Holder, LockId, LockRef, Table};

/// Runs `body` on the table. `body` must change nothing on which a decision depends.
pub(crate) fn view<R>(body: impl FnOnce(&mut Table<BlockedClient>) -> R) -> R {
    TABLE.with(body)
}

/// Returns how many grants hold a lock of the selected database, and at most `most` of them, the oldest first, each with the lease on which
/// its holder can rely.
pub(crate) fn shown(ctx: &Ctx<'_>, lock: &LockKey<'_>, now: Now, most: usize) -> (usize, Vec<Holder>) {
    let at = LockRef { db: ctx.db(), key: lock.name().bytes() };
    let all = waiting::holders(lock.value(), lock.deadline(), now.millis(), usize::MAX).into_iter();
    TABLE.with(|table| {
        let mut relied = all.filter_map(|Holder { grant, deadline }| {
            let Some(known) = table.get(at) else { return Some(Holder { grant, deadline }) };
            let deadline = known.relied_on(Held { grant: &grant, deadline }, now.millis())?.deadline;
            Some(Holder { grant, deadline })
        });
        let first: Vec<Holder> = relied.by_ref().take(most).collect();
        (first.len() + relied.count(), first)
    })
}

/// Returns the holders of a lock in any database, as `shown` does.
pub(crate) fn holders_shown(ctx: &Ctx<'_>, id: &LockId, most: usize, now: Now) -> Holders {
    holders_by(ctx, id, |lock| shown(ctx, lock, now, most))
}

/// Returns for how many more ms this server grants nothing new; 0 on a replica, which grants nothing by itself.
pub(crate) fn grace(ctx: &Ctx<'_>) -> Millis {
    if ctx.is_replica() { 0 } else { heartbeat::grace_left().grants }
}

/// Returns the most work, in units of the budget, of any command or turn of the event loop since the module was loaded.
pub(crate) fn most_work() -> u64 {
    TABLE.with(|table| table.budget.most()).into()
}

/// Of all locks with waiters, finds the lock that has been held longest, and returns for how many ms; 0 if nobody holds any of them.
pub(crate) fn longest_held(ctx: &Ctx<'_>, now: Now) -> Millis {
    waiting::longest_held(&mut Server::new(ctx), now.millis())
}

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
