//! Locks, waiters and sessions as commands and `INFO` show them.

use super::heartbeat;
use super::holders::holders_of;
use super::host::Server;
use super::table::{BUDGET, TABLE};
use crate::keyspace::LockKey;
use crate::lock::{Millis, Now};
use crate::server::{Blocked, Ctx};
use crate::waiting::{self, Holder, LockRef, WaitTable};

/// Shows what is known of waiters and sessions.
pub(crate) fn view<R>(body: impl FnOnce(&mut WaitTable<Blocked>) -> R) -> R {
    TABLE.with(body)
}

/// The holders of a lock whose leases are over, and whose sessions have outlived that, since this server stood still.
pub(crate) fn outliving(ctx: &Ctx<'_>, lock: &LockKey<'_>, now: Now) -> Vec<Holder> {
    let at = LockRef { db: ctx.db(), key: lock.name().bytes() };
    waiting::outliving(&mut Server::new(ctx), at, lock.value(), lock.deadline(), now)
}

/// For how many ms more this server grants nothing new; a replica never does.
pub(crate) fn grace(ctx: &Ctx<'_>) -> Millis {
    if ctx.is_replica() { 0 } else { heartbeat::grace_left().grants }
}

/// The most work that any command or turn has done since the server was started.
pub(crate) fn most_work() -> u64 {
    BUDGET.with(|budget| budget.most()).into()
}

/// How long, in ms, the lock has been held that has been held longest of all locks with waiters.
pub(crate) fn longest_held(ctx: &Ctx<'_>, now: Now) -> Millis {
    waiting::longest_held(&mut Server::new(ctx), now.millis(), |_, id| {
        let oldest = holders_of(ctx, id, 1, now).first.pop()?;
        Some(now.millis().saturating_sub(oldest.grant.age(now.millis())))
    })
}
