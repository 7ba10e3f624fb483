//! Locks, waiters and sessions as commands and `INFO` show them.

use super::heartbeat;
use super::holders::holders_of;
use super::host::Server;
use super::table::TABLE;
use crate::error::Error;
use crate::keyspace::LockKey;
use crate::lock::{Fence, Held, Millis, Now, Owner};
use crate::server::{Arg, Ctx};
use crate::waiting::{self, Busy, Holder, LockId, LockRef, Page, RequestId, WaiterInfo};

/// A lock as `LOCK.INFO` shows it.
pub(crate) fn look<'a>(ctx: &'a Ctx<'_>, key: Arg<'a>) -> Result<LockKey<'a>, Error> {
    Ok(LockKey::read(ctx, key)?)
}

fn at<'a>(ctx: &Ctx<'_>, key: Arg<'a>) -> LockRef<'a> {
    LockRef { db: ctx.db(), key: key.bytes() }
}

/// How many wait for a lock.
pub(crate) fn waiters_of(ctx: &Ctx<'_>, key: Arg<'_>) -> usize {
    let at = at(ctx, key);
    TABLE.with(|table| table.locks.lock(at).waiters())
}

/// Those who hold a lock though their leases are over: this server has stood still, and their sessions have outlived that.
pub(crate) fn outliving(ctx: &Ctx<'_>, lock: &LockKey<'_>, now: Now) -> Vec<Holder> {
    let at = at(ctx, lock.name());
    waiting::outliving(&mut Server::new(ctx), at, lock.value(), lock.deadline(), now)
}

/// Those who are next, so many at most.
pub(crate) fn queue_of(ctx: &Ctx<'_>, key: Arg<'_>, most: usize, now: Now) -> Vec<WaiterInfo> {
    let at = at(ctx, key);
    TABLE.with(|table| table.shown().queue_of(at, most, now))
}

/// For whom a free lock is reserved, who waits for others too.
pub(crate) fn reserved_for(ctx: &Ctx<'_>, key: Arg<'_>) -> Option<Owner<'static>> {
    let at = at(ctx, key);
    TABLE.with(|table| table.reserved_for(at))
}

/// The connection that keeps the grant with that fence alive.
pub(crate) fn session_client(ctx: &Ctx<'_>, key: Arg<'_>, fence: Fence) -> Option<u64> {
    let at = at(ctx, key);
    TABLE.with(|table| table.session_client(at, fence))
}

/// The grant as its holder may count on it; none where its lease is over without what replicas have not confirmed yet.
pub(crate) fn confirmed<'a>(ctx: &Ctx<'_>, key: Arg<'_>, held: Held<'a>, now: Now) -> Option<Held<'a>> {
    let at = at(ctx, key);
    TABLE.with(|table| table.locks.lock(at).confirmed(held, now.millis()))
}

/// Those who wait for any lock, or for that one, and came after that waiter: so many, the longest wait first.
pub(crate) fn page(
    ctx: &Ctx<'_>,
    key: Option<Arg<'_>>,
    after: Option<RequestId>,
    count: usize,
    now: Now,
) -> Page {
    match key.map(|key| at(ctx, key)) {
        None => TABLE.with(|table| table.shown().page(after, count, now)),
        Some(at) => TABLE.with(|table| table.shown().page_of(at, after, count, now)),
    }
}

/// For how many ms more this server grants nothing new; a replica never does.
pub(crate) fn grace(ctx: &Ctx<'_>) -> Millis {
    if ctx.is_replica() { 0 } else { heartbeat::grace_left().grants }
}

/// How many clients wait for locks, and how many grants are kept alive by a connection.
pub(crate) fn totals() -> (u64, u64) {
    let (waiters, sessions) = TABLE.with(|table| (table.waiters.queued(), table.connections.sessions()));
    (waiters as u64, sessions as u64)
}

/// How many places there are without a blocked client, in queues or with a grant to claim.
pub(crate) fn places() -> u64 {
    TABLE.with(|table| table.connections.places()) as u64
}

/// How many clients and renewals wait for replicas.
pub(crate) fn syncing() -> u64 {
    TABLE.with(|table| table.replication.len()) as u64
}

/// How many waits have ended without a grant.
pub(crate) fn ungranted() -> u64 {
    TABLE.with(|table| table.shown().ungranted())
}

/// How long somebody has waited, at most; 0 where nobody waits.
pub(crate) fn oldest_wait(now: Now) -> Millis {
    TABLE.with(|table| table.shown().oldest_wait(now.micros))
}

/// So many of the locks that are waited for most often, after so many others, each with how many wait now; and whether there are more.
pub(crate) fn busiest(after: usize, count: usize) -> (Vec<(LockId, Busy, usize)>, bool) {
    TABLE.with(|table| table.shown().busiest(after, count))
}

/// How long, in ms, the lock has been held that has been held longest of those that somebody waits for.
pub(crate) fn longest_held(ctx: &Ctx<'_>, now: Now) -> Millis {
    waiting::longest_held(&mut Server::new(ctx), now.millis(), |_, id| {
        let oldest = holders_of(ctx, id, 1, now).first.pop()?;
        Some(now.millis().saturating_sub(oldest.grant.age(now.millis())))
    })
}
