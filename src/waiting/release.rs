//! Releases locks, and ends grants for `LOCK.BREAK`.

use super::access::{LockAccess, LockEvent};
use super::hand_over::{end_with_others, grant_heads, hand_over, hand_over_all};
use super::lock_set::LocksAccess;
use super::sessions;
use super::settle::{end_lapsed, settle, settle_own};
use crate::lock::{self, Fence, Grant, GrantChange, NotHeld, Now, Owner, Released, Value};

#[derive(Clone, Copy, Debug)]
pub(crate) struct ReleaseRequest<'a> {
    pub(crate) owner: &'a Owner<'a>,
    /// If there is a fence, only the grant with this fence may be released.
    pub(crate) fence: Option<u64>,
    /// Whether all holds are released (`ALL`), instead of one.
    pub(crate) all: bool,
}

/// Releases one hold of each lock, or all holds. Returns how many holds are left, or why the owner does not hold the lock. The function
/// calls `now` only if it needs the time, because reading the clock takes longer than the rest of a release.
pub(crate) fn release<B: LocksAccess>(
    locks: &mut B,
    given: ReleaseRequest<'_>,
    now: impl Fn() -> Now,
) -> B::Each<Result<u32, NotHeld>> {
    locks.each(|lock| release_one(lock, given, &now))
}

#[inline(always)]
fn release_one<S: LockAccess>(
    lock: &mut S,
    given: ReleaseRequest<'_>,
    now: impl Fn() -> Now,
) -> Result<u32, NotHeld> {
    match lock.value().map(Value::is_one) {
        Some(false) => return release_among(lock, given, now()),
        None => revive(lock, &now),
        Some(true) => (),
    }
    let grant = lock.value().and_then(|value| value.grant_of(given.owner));
    let grant = grant.ok_or_else(|| NotHeld::without_grant(lock.value().is_some()))?;
    let fence = grant.fence();
    let released = lock::decide_release(grant, given.fence, given.all)?;
    if released == Released::Ended && lock.value().is_some_and(Value::is_one) && lock.idle() {
        // Most releases take this fast path.
        lock.note(LockEvent::Released);
        lock.free();
        return Ok(0);
    }
    Ok(apply(lock, fence, released, |lock| hand_over(lock, fence, LockEvent::Released, now)))
}

/// Releases one of several grants. Lapsed grants of others end first, but waiters are served only after the release. Otherwise another
/// client that waits under the same owner's name could first re-enter the grant, and this release would then release that client's hold.
#[inline(never)]
fn release_among<S: LockAccess>(
    lock: &mut S,
    ReleaseRequest { owner, fence, all }: ReleaseRequest<'_>,
    now: Now,
) -> Result<u32, NotHeld> {
    end_lapsed(lock, now);
    let holds = settle_own(lock, owner, now);
    let grant = lock.value().and_then(|value| value.grant_of(owner)).filter(|_| holds);
    let grant = grant.ok_or_else(|| NotHeld::without_grant(lock.value().is_some()));
    let released = grant.and_then(|grant| Ok((grant.fence(), lock::decide_release(grant, fence, all)?)));
    let end = |lock: &mut S, fence| end_with_others(lock, fence, LockEvent::Released, now);
    let left = released.map(|(fence, released)| apply(lock, fence, released, |lock| end(lock, fence)));
    // If the budget is used up, `settle` has served no waiters, so this code grants the lock to the waiters that now fit. But if grants
    // that are over are left (`settle` returns `false`), the lock still counts as taken.
    if settle(lock, now) && left == Ok(0) {
        grant_heads(lock, false, now);
    }
    left
}

/// Applies the result of a release to a grant. Returns how many holds are left.
#[inline(always)]
fn apply<S: LockAccess>(lock: &mut S, fence: Fence, released: Released, end: impl FnOnce(&mut S)) -> u32 {
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
        // Lapsed grants end first, so that they do not count as broken: their owners have already lost them.
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
        [grant] => hand_over(lock, grant.fence(), LockEvent::Broken, now),
        _ => hand_over_all(lock, LockEvent::Broken, now),
    }
    broken
}

/// If a lock seems to be free because its key expired during a freeze, restores the grants whose sessions outlive the freeze (see
/// `sessions::outlives`). Serves no waiters, because the command could then end the grant that a waiter has just got. A timer serves the
/// waiters later.
#[inline(always)]
fn revive<S: LockAccess>(lock: &mut S, now: impl Fn() -> Now) {
    if !lock.idle() {
        sessions::revive(lock, now());
    }
}
