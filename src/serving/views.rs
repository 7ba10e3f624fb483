//! What commands and `INFO` show of locks, waiters and sessions.

use super::heartbeat;
use super::holders::holders_of;
use super::host::Server;
use super::table::{BUDGET, TABLE};
use crate::keyspace::LockKey;
use crate::lock::{Millis, Now};
use crate::server::{BlockedClient, Ctx};
use crate::waiting::{self, Holder, LockRef, WaitTable};

/// Runs `body` on the table of waiters. `body` must change nothing on which a decision depends.
pub(crate) fn view<R>(body: impl FnOnce(&mut WaitTable<BlockedClient>) -> R) -> R {
    TABLE.with(body)
}

/// Returns the holders whose leases have ended while this server was frozen and could not renew them for sessions. These holders still hold
/// the lock, because the server renews the leases late.
pub(crate) fn outliving(ctx: &Ctx<'_>, lock: &LockKey<'_>, now: Now) -> Vec<Holder> {
    let at = LockRef { db: ctx.db(), key: lock.name().bytes() };
    waiting::outliving(&mut Server::new(ctx), at, lock.value(), lock.deadline(), now)
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
