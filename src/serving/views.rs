//! What commands and `INFO` show of locks, waiters and sessions.

use super::heartbeat;
use super::holders::{Holders, holders_by};
use super::host::Server;
use super::table::TABLE;
use crate::keyspace::LockKey;
use crate::server::{BlockedClient, Ctx};
use rules::lock::{Held, Millis, Now};
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
