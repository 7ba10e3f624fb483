//! Locks, waiters and sessions as commands and `INFO` show them.

use super::heartbeat;
use super::holders::holders_of;
use super::host::Server;
use super::table::{BUDGET, TABLE};
use crate::keyspace::LockKey;
use crate::lock::{Millis, Now};
use crate::server::{BlockedClient, Ctx};
use crate::waiting::{self, Holder, LockRef, WaitTable};

/// Runs `body` on the table of waiters, to show what it has.
pub(crate) fn view<R>(body: impl FnOnce(&mut WaitTable<BlockedClient>) -> R) -> R {
    TABLE.with(body)
}

/// The holders of a lock whose leases are over, but whose sessions outlive the leases because this server was frozen.
pub(crate) fn outliving(ctx: &Ctx<'_>, lock: &LockKey<'_>, now: Now) -> Vec<Holder> {
    let at = LockRef { db: ctx.db(), key: lock.name().bytes() };
    waiting::outliving(&mut Server::new(ctx), at, lock.value(), lock.deadline(), now)
}

/// For how many ms more this server grants nothing new; 0 on a replica, which grants nothing at all by itself.
pub(crate) fn grace(ctx: &Ctx<'_>) -> Millis {
    if ctx.is_replica() { 0 } else { heartbeat::grace_left().grants }
}

/// The most work that any command or turn has done since the server was started.
pub(crate) fn most_work() -> u64 {
    BUDGET.with(|budget| budget.most()).into()
}

/// Of all locks with waiters, the longest time, in ms, for which one has been held.
pub(crate) fn longest_held(ctx: &Ctx<'_>, now: Now) -> Millis {
    waiting::longest_held(&mut Server::new(ctx), now.millis(), |_, id| {
        let oldest = holders_of(ctx, id, 1, now).first.pop()?;
        Some(now.millis().saturating_sub(oldest.grant.age(now.millis())))
    })
}
