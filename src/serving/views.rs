//! What commands and `INFO` show of locks, waiters and sessions.

use super::heartbeat;
use super::holders::{Holders, holders_by, holders_of};
use super::host::Server;
use super::table::{BUDGET, TABLE};
use crate::keyspace::LockKey;
use crate::server::{BlockedClient, Ctx};
use rules::lock::{Millis, Now};
use rules::waiting::{self, Holder, LockId, LockRef, WaitTable};

/// Runs `body` on the table of waiters. `body` must change nothing on which a decision depends.
pub(crate) fn view<R>(body: impl FnOnce(&mut WaitTable<BlockedClient>) -> R) -> R {
    TABLE.with(body)
}

/// Returns how many grants hold a lock of the selected database, and at most `most` of them (see `waiting::shown`).
pub(crate) fn shown(ctx: &Ctx<'_>, lock: &LockKey<'_>, now: Now, most: usize) -> (usize, Vec<Holder>) {
    let at = LockRef { db: ctx.db(), key: lock.name().bytes() };
    waiting::shown(&mut Server::new(ctx), at, lock.value(), lock.deadline(), now, most)
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
    BUDGET.with(|budget| budget.most()).into()
}

/// Of all locks with waiters, finds the lock that has been held longest, and returns for how many ms; 0 if nobody holds any of them.
pub(crate) fn longest_held(ctx: &Ctx<'_>, now: Now) -> Millis {
    waiting::longest_held(&mut Server::new(ctx), now.millis(), |_, id| {
        let oldest = holders_of(ctx, id, 1, now).first.pop()?;
        Some(now.millis().saturating_sub(oldest.grant.age(now.millis())))
    })
}
