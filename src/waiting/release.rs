//! A release, and an operator's break.

use super::access::{LockAccess, LockEvent};
use super::hand_over::{end_with_others, grant_heads, pass_on, pass_on_all};
use super::lock_set::LocksAccess;
use super::sessions;
use super::settle::{end_lapsed, settle, settle_own};
use crate::lock::{self, Fence, Grant, GrantChange, Now, Owner, Released, Value};

/// How much of each lock is released.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReleaseRequest<'a> {
    pub(crate) owner: &'a Owner<'a>,
    /// The fence of the only grant that may be released.
    pub(crate) fence: Option<u64>,
    /// Whether all holds are released, not only one.
    pub(crate) all: bool,
}

/// Releases one hold of each of these locks, or all: the holds left; none where the owner does not hold it. `now` is asked for only where it is needed: reading the time takes
/// longer than the rest of a release.
pub(crate) fn release<B: LocksAccess>(
    locks: &mut B,
    given: ReleaseRequest<'_>,
    now: impl Fn() -> Now,
) -> B::Each<Option<u32>> {
    locks.each(|lock| release_one(lock, given, &now))
}

#[inline(always)]
fn release_one<S: LockAccess>(lock: &mut S, given: ReleaseRequest<'_>, now: impl Fn() -> Now) -> Option<u32> {
    match lock.value().map(Value::is_one) {
        Some(false) => return release_among(lock, given, now()),
        None => revive(lock, &now),
        Some(true) => (),
    }
    let grant = lock.value().and_then(|value| value.grant_of(given.owner))?;
    let fence = grant.fence();
    let released = lock::release(Some(grant), given.fence, given.all)?;
    if released == Released::Ended && lock.value().is_some_and(Value::is_one) && lock.idle() {
        // As most are.
        lock.note(LockEvent::Released);
        lock.free();
        return Some(0);
    }
    Some(give_back(lock, fence, released, |lock| pass_on(lock, fence, LockEvent::Released, now)))
}

/// Releases one of several grants. Grants of others that are over don't count any more, but their room goes to nobody before the owner's
/// own grant is as this release leaves it. So a client never gives back what another client of the same owner, which waited, is given in
/// this step.
#[inline(never)]
fn release_among<S: LockAccess>(
    lock: &mut S,
    ReleaseRequest { owner, fence, all }: ReleaseRequest<'_>,
    now: Now,
) -> Option<u32> {
    end_lapsed(lock, now);
    let holds = settle_own(lock, owner, now);
    let grant = lock.value().and_then(|value| value.grant_of(owner)).filter(|_| holds);
    let released = grant.and_then(|grant| Some((grant.fence(), lock::release(Some(grant), fence, all)?)));
    let end = |lock: &mut S, fence| end_with_others(lock, fence, LockEvent::Released, now);
    let left = released.map(|(fence, released)| give_back(lock, fence, released, |lock| end(lock, fence)));
    // Where the budget is used up, nothing is handed over by that.
    if settle(lock, now) && left == Some(0) {
        grant_heads(lock, false, now);
    }
    left
}

/// Does to a grant what a release comes to: the holds left.
#[inline(always)]
fn give_back<S: LockAccess>(lock: &mut S, fence: Fence, released: Released, end: impl FnOnce(&mut S)) -> u32 {
    match released {
        Released::Kept { holds } => {
            let until = lock.with_fence(fence).map(|held| held.deadline);
            debug_assert!(until.is_some(), "its owner holds the lock");
            if let Some(until) = until {
                lock.update(fence, GrantChange::holds(holds), until);
            }
            holds
        }
        Released::Ended => {
            end(lock);
            0
        }
    }
}

/// Ends the grant with this fence, or all grants, whoever holds them. Returns the ended grants.
pub(crate) fn break_<S: LockAccess>(lock: &mut S, fence: Option<u64>, now: impl Fn() -> Now) -> Vec<Grant> {
    match lock.value().map(Value::is_one) {
        // A grant that has lapsed is not its owner's any more.
        Some(false) => _ = settle(lock, now()),
        None => revive(lock, &now),
        Some(true) => (),
    }
    let until = lock.deadline();
    let Some(value) = lock.value() else { return Vec::new() };
    let meant = |grant: &&Grant| fence.is_none_or(|fence| grant.fence().get() == fence);
    let broken: Vec<Grant> = value.all(until).map(|held| held.grant).filter(meant).cloned().collect();
    match broken.as_slice() {
        [] => (),
        [grant] => pass_on(lock, grant.fence(), LockEvent::Broken, now),
        _ => pass_on_all(lock, LockEvent::Broken, now),
    }
    broken
}

/// Gives back the grants of a lock that looks free, and that a connection keeps alive (see `sessions::outlives`). Waiters are served by a
/// timer, since the client did not mean the grant of somebody else.
#[inline(always)]
fn revive<S: LockAccess>(lock: &mut S, now: impl Fn() -> Now) {
    if !lock.idle() {
        sessions::revive(lock, now());
    }
}
