//! Sessions: the module renews a grant with a session while a connection is open, and ends the grant when the connection closes.
//!
//! A grant with a session still lasts only as long as its lease. The module renews the lease each time a third of it has passed, so the
//! grant lapses by itself if this server dies. Sessions are neither saved nor replicated. An owner that reconnects has to ask for a session
//! again (`ONCE SESSION`).

use super::access::{Environment, LockAccess, LockEvent};
use super::budget::CHANGE;
use super::detect::Holder;
use super::table::{Expired, LockRef, Session, WaitTable};
use crate::lock::{self, Deadline, Fence, Grant, GrantChange, Millis, Now, Value};

/// The module renews a lease when a third of the lease has passed. Renewals that are due within the same thirtieth of the lease are made
/// together.
const RENEWALS_PER_LEASE: Millis = 3;
const PASSES_PER_LEASE: Millis = 30;

/// Starts a session of the connection `client` for the grant with this fence. It replaces the grant's session, and the sessions that
/// blocked clients of the same owner would start when they are told of the grant.
pub(super) fn start<S: LockAccess>(
    lock: &mut S,
    client: u64,
    fence: Fence,
    lease: Millis,
    until: Deadline,
    now: Now,
) {
    let lease = lock.limits().allowed(lease);
    lock.here(|table, at| {
        table.locks.change(at, |entry| entry.end_binds(fence));
        table.sessions().confirm(at, fence, None);
        bind(table, at, client, fence, lease, until, now.millis());
    });
}

/// Makes a connection keep a grant alive. For a waiter's grant, the module calls this when the waiter is told of the grant, so a waiter
/// that is never told has no session. `until` is the present end of the lease.
pub(super) fn bind<C: Copy>(
    table: &mut WaitTable<C>,
    at: LockRef<'_>,
    client: u64,
    fence: Fence,
    lease: Millis,
    until: Deadline,
    now: Millis,
) {
    let renew_at = next_renewal(lease, now);
    table.sessions().start(at, Session { client, fence, lease, renew_at, over: false });
    // If the present lease ends before `renew_at`, the session must renew the lease earlier, so a timer is set for an earlier time.
    if until < Deadline::At(renew_at) {
        table.locks.renew_by(at, next_look(until.left(now), now));
    }
}

/// Called when a waiter is told of its grant, but the grant's lease is already over. If the grant's session outlives this, because this
/// server was frozen or busy (see `outlives`), moves the session to `client`, the waiter's connection. The next step on the lock then
/// restores the grant. Otherwise, does nothing.
pub(super) fn bind_overdue<A: Environment>(
    env: &mut A,
    at: LockRef<'_>,
    client: u64,
    fence: Fence,
    lease: Millis,
    now: Now,
) {
    let session = env.table(|table| {
        let is_kept = table.locks.kept_expired(at).iter().any(|grant| grant.fence() == fence);
        if is_kept { table.session(at, fence) } else { table.overdue_session(at, fence, now.millis()) }
    });
    if let Some(session) = session.filter(|session| !session.over && env.is_open(session.client)) {
        env.table(|table| table.sessions().start(at, Session { client, lease, ..session }));
    }
}

/// Called when the server has deleted a lock because its lease has ended. Returns whether the session of `grant` goes on, because this
/// server was frozen or busy when the session's renewal fell due (see `renewable` for the other conditions). If so, keeps the grant in the
/// table. The key existed until now, so nobody else has got the lock. The next step on the lock, for which a timer is set, restores the
/// grant (`revive`).
pub fn outlives<A: Environment>(env: &mut A, at: LockRef<'_>, grant: &Grant, now: Now) -> bool {
    let outlives = overdue(env, at, grant, now).is_some();
    if outlives {
        env.table(|table| table.locks.keep_expired(at, grant.clone()));
    }
    outlives
}

/// Returns the new end of the lease for a grant whose lease has ended; `None` if no session can renew this lease.
fn overdue<A: Environment>(env: &mut A, at: LockRef<'_>, grant: &Grant, now: Now) -> Option<Deadline> {
    let session = env.table(|table| table.overdue_session(at, grant.fence(), now.millis()))?;
    renewable(env, grant, &session, now)
}

/// Returns the new end of the lease for a grant whose session outlives a freeze; `None` if the session's connection has closed, or the
/// lease must not be renewed (see `renewed`).
fn renewable<A: Environment>(env: &mut A, grant: &Grant, session: &Session, now: Now) -> Option<Deadline> {
    let goes_on = !session.over && env.is_open(session.client);
    goes_on.then(|| renewed(env, grant, session, now)).flatten()
}

/// Renews the ended lease of one of several grants, if the renewal of its session was overdue because this server was frozen. Returns
/// whether the grant goes on.
pub(super) fn renew_overdue<S: LockAccess>(lock: &mut S, fence: Fence, now: Now) -> bool {
    if lock.idle() {
        return false;
    }
    let Some(grant) = lock.with_fence(fence).map(|held| held.grant.clone()) else { return false };
    let (db, key) = (lock.db(), lock.key());
    let until = overdue(lock, LockRef { db, key: key.as_ref() }, &grant, now);
    if let Some(until) = until {
        lock.update(fence, GrantChange::NONE, until);
    }
    until.is_some()
}

/// Returns how many grants hold a lock, and at most `most` of them, the oldest first, for commands that only read. Each grant has the lease
/// that its holder can rely on: without a renewal that replicas have not confirmed. Grants whose leases have ended count, too, if their
/// sessions outlive a freeze: the command may come before the step that gives these grants back (`revive`) or renews their leases
/// (`renew_overdue`).
pub fn shown<A: Environment>(
    env: &mut A,
    at: LockRef<'_>,
    value: Option<&Value>,
    until: Deadline,
    now: Now,
    most: usize,
) -> (usize, Vec<Holder>) {
    let mut holders = outliving(env, at, value, until, now);
    let mut count = holders.len();
    env.table(|table| {
        let alive = value.into_iter().flat_map(|value| value.alive(until, now.millis()));
        let entry = table.locks.lock(at);
        for (number, held) in alive.filter_map(|held| entry.confirmed(held, now.millis())).enumerate() {
            count += 1;
            if number < most {
                holders.push(Holder { grant: held.grant.clone(), deadline: held.deadline });
            }
        }
    });
    holders.sort_by_key(|holder| holder.grant.fence());
    holders.truncate(most);
    (count, holders)
}

/// Returns the grants that still hold a lock although their leases have ended, because their sessions outlive a freeze.
fn outliving<A: Environment>(
    env: &mut A,
    at: LockRef<'_>,
    value: Option<&Value>,
    until: Deadline,
    now: Now,
) -> Vec<Holder> {
    let Some(value) = value else {
        let kept = env.table(|table| table.locks.kept_expired(at)).into_iter();
        let outlives = |grant: Grant| {
            let session = env.table(|table| table.session(at, grant.fence()))?;
            let deadline = renewable(env, &grant, &session, now)?;
            Some(Holder { grant, deadline })
        };
        return kept.filter_map(outlives).collect();
    };
    let outlives = |fence: Fence| {
        let grant = value.with_fence(fence, || until)?.grant;
        let deadline = overdue(env, at, grant, now)?;
        Some(Holder { grant: grant.clone(), deadline })
    };
    value.lapsed(until, now.millis()).filter_map(outlives).collect()
}

/// Returns the end that the grant's lease gets if the session renews the lease now; `None` if the grant is past its maximum age, or this
/// server makes no lease longer now.
fn renewed<A: Environment>(env: &mut A, grant: &Grant, session: &Session, now: Now) -> Option<Deadline> {
    let limits = env.limits();
    lock::within_age(grant, session.lease, limits, now.start).filter(|_| limits.may_lengthen)
}

/// Restores the grants that `outlives` kept in the table when the server deleted the key, with the same fences, and renews their leases.
/// Grants that can't be restored lapse.
pub(super) fn revive<S: LockAccess>(lock: &mut S, now: Now) {
    let expired = lock.here(|table, at| table.locks.take_expired(at));
    let is_taken = lock.value().is_some();
    lock.spend(CHANGE.saturating_mul(expired.len() as u32));
    for Expired { grant, for_good, .. } in expired {
        let fence = grant.fence();
        let session = lock.here(|table, at| table.session(at, fence)).filter(|_| !for_good && !is_taken);
        let until = session.as_ref().and_then(|session| renewed(lock, &grant, session, now));
        let Some((session, until)) = session.zip(until) else {
            lock.note(LockEvent::Lapsed);
            continue;
        };
        if lock.value().is_none() {
            lock.give(grant, until);
        } else {
            lock.add(grant, until);
        }
        let renew_at = next_renewal(lock.limits().allowed(session.lease), now.millis());
        lock.change(|entry| entry.renew_session_at(fence, renew_at));
    }
}

/// Returns when a timer has to look at a session's lease again, in ms since 1970. This is well before the lease ends. `left` is the rest of
/// the lease in ms.
pub(super) fn next_look(left: Millis, now: Millis) -> Millis {
    now.saturating_add(left / RENEWALS_PER_LEASE)
}

pub(super) fn next_renewal(lease: Millis, now: Millis) -> Millis {
    let pass = (lease / PASSES_PER_LEASE).max(1);
    let due = now.saturating_add(lease / RENEWALS_PER_LEASE);
    (due - due % pass).max(now.saturating_add(1))
}

/// Returns the end of the lease after a re-entry that asks for the end `asked`. If replicas have to confirm the renewals of the grant's
/// session, the lease stays as it is, because only the session may renew such a lease.
#[inline(never)]
pub(super) fn lease_of<S: LockAccess>(lock: &mut S, fence: Fence, asked: Deadline) -> Deadline {
    if lock.idle() || !lock.entry(|entry| entry.is_synced(fence)) {
        return asked;
    }
    lock.with_fence(fence).map_or(asked, |held| held.deadline)
}
