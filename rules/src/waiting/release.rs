//! Releases locks, and ends grants for `LOCK.BREAK`.

use super::access::{LockAccess, LockEvent};
use super::hand_over::{end, hand_over};
use super::lock_set::LocksAccess;
use super::sessions;
use super::settle::{settle_around, settle_own};
use crate::lock::{self, Fence, Grant, GrantChange, NotHeld, Now, Owner, Released};

#[derive(Clone, Copy, Debug)]
pub struct ReleaseRequest<'a> {
    pub owner: &'a Owner<'a>,
    /// If there is a fence, only the grant with this fence may be released.
    pub fence: Option<u64>,
    /// Whether all holds are released (`ALL`), instead of one.
    pub all: bool,
}

/// Releases one hold of each lock, or all holds. Returns how many holds are left, or why the owner does not hold the lock. The function
/// calls `now` only if it needs the time, because reading the clock takes longer than the rest of a release.
pub fn release<B: LocksAccess>(
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
    if lock.value().is_none() {
        revive(lock, &now);
    }
    if lock.value().is_some_and(|value| !value.is_one()) {
        return release_among(lock, given, now());
    }
    let grant = lock.value().and_then(|value| value.grant_of(given.owner));
    let grant = grant.ok_or_else(|| NotHeld::without_grant(lock.value().is_some()))?;
    let fence = grant.fence();
    let released = lock::decide_release(grant, given.fence, given.all)?;
    if released == Released::Ended && lock.idle() {
        // Most releases take this fast path.
        lock.note(LockEvent::Released);
        lock.free();
        return Ok(0);
    }
    if !lock.idle() && lock.here(|table, at| table.has_left(at)) {
        return release_among(lock, given, now());
    }
    Ok(apply(lock, fence, released, |lock| hand_over(lock, fence, LockEvent::Released, now)))
}

/// Releases a grant that is one of several, or that has holds or a session of a client that has gone away. What is over ends first, but
/// waiters are served only after the release. Otherwise another client that waits under the same owner's name could first get or re-enter
/// the grant, and this release would then release that client's hold.
#[inline(never)]
fn release_among<S: LockAccess>(
    lock: &mut S,
    ReleaseRequest { owner, fence, all }: ReleaseRequest<'_>,
    now: Now,
) -> Result<u32, NotHeld> {
    let mut left = Err(NotHeld::without_grant(false));
    let release = |lock: &mut S, is_settled: bool| {
        let held = is_settled || settle_own(lock, owner, now);
        let grant = lock.value().and_then(|value| value.grant_of(owner)).filter(|_| held);
        let grant = grant.ok_or_else(|| NotHeld::without_grant(lock.value().is_some()));
        let released = grant.and_then(|grant| Ok((grant.fence(), lock::decide_release(grant, fence, all)?)));
        let finish = |lock: &mut S, fence| end(lock, &[fence], LockEvent::Released);
        left = released.map(|(fence, released)| apply(lock, fence, released, |lock| finish(lock, fence)));
        left == Ok(0)
    };
    settle_around(lock, now, release);
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
pub fn break_<S: LockAccess>(lock: &mut S, fence: Option<u64>, now: impl Fn() -> Now) -> Vec<Grant> {
    if lock.value().is_none() {
        revive(lock, &now);
        if lock.value().is_none() {
            return Vec::new();
        }
    }
    let mut broken = Vec::new();
    // Grants that are over end first, so that they do not count as broken: their owners have already lost them.
    settle_around(lock, now(), |lock, _| {
        let until = lock.deadline();
        let meant = |grant: &&Grant| fence.is_none_or(|fence| grant.fence().get() == fence);
        let held = lock.value().into_iter().flat_map(|value| value.all(until));
        broken.extend(held.map(|held| held.grant).filter(meant).cloned());
        let fences: Vec<Fence> = broken.iter().map(Grant::fence).collect();
        end(lock, &fences, LockEvent::Broken);
        !fences.is_empty()
    });
    broken
}

/// If a lock seems to be free because its key expired during a freeze, restores the grants whose sessions outlive the freeze (see
/// `sessions::outlives`). Serves no waiters: if no grant comes back, the command changes nothing, and a timer serves the waiters.
#[inline(always)]
fn revive<S: LockAccess>(lock: &mut S, now: impl Fn() -> Now) {
    if !lock.idle() {
        sessions::revive(lock, now());
    }
}
