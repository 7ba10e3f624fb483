//! Settles a lock: brings its grants, its sessions and its queue up to date, whatever has happened to the lock.

use super::access::{LockAccess, LockEvent};
use super::budget::{CHANGE, LOOKUP, scan};
use super::hand_over::{check_upgrade, end, grant_heads, reenter};
use super::lapse::{end_lapsed, look_when_one_ends};
use super::session_end::{settle_session, settle_sessions};
use super::sessions;
use super::table::{LockEntry, MessageKind};
use crate::lock::{self, Deadline, Fence, Grant, GrantChange, Now, Owner, Released, Value};

/// Settles a lock: lapsed grants end, room goes to the head of the queue, the holders' own waiters re-enter, and a timer is set for the
/// next lapse.
///
/// Returns whether everything that is over has been removed: lapsed grants, grants whose connections have closed, and holds of waiters that
/// went away before they were told. If not, the budget of this step is used up, and the lock counts as taken until the next turn of the
/// event loop has removed the rest.
#[inline]
pub fn settle<S: LockAccess>(lock: &mut S, now: Now) -> bool {
    if !lock.idle() {
        settle_all(lock, now)
    } else if lock.value().is_some_and(|value| !value.is_one()) {
        end_lapsed(lock, now)
    } else {
        true
    }
}

/// Settles a lock (brings it up to date) for a command of this owner. If the budget of the step is not enough, settles at least the owner's
/// own grant, so that the command sees the true state of this grant. Returns what `settle` returns.
#[inline(always)]
pub(super) fn settle_for<S: LockAccess>(lock: &mut S, owner: &Owner<'_>, now: Now) -> bool {
    let is_settled = settle(lock, now);
    if !is_settled && !settle_own(lock, owner, now) && lock.value().is_none() {
        grant_heads(lock, false, now);
    }
    is_settled
}

/// Settles a lock that has an entry in the table. This function is not inlined, so that a lock without an entry pays only for the check.
#[inline(never)]
fn settle_all<S: LockAccess>(lock: &mut S, now: Now) -> bool {
    settle_around(lock, now, |_, _| false)
}

/// Settles a lock in a step that ends grants itself, by `body`. First ends what is over, then runs `body`, and only then serves waiters:
/// otherwise `body` could end a grant that a waiter has just got. `body` gets whether everything that is over has been removed, and returns
/// whether it has ended a grant. Returns what `settle` returns.
pub(super) fn settle_around<S: LockAccess>(
    lock: &mut S,
    now: Now,
    body: impl FnOnce(&mut S, bool) -> bool,
) -> bool {
    if lock.idle() {
        let all = end_lapsed(lock, now);
        body(lock, all);
        return all;
    }
    if !lock.pay(0) {
        if lock.here(|table, at| table.locks.look_by(at, 0) && table.locks.lock(at).has_expired()) {
            sessions::revive(lock, now);
        }
        let has_ended = body(lock, false);
        let all = !has_ended_grants(lock, now);
        if has_ended && all {
            grant_heads(lock, false, now);
        }
        return all;
    }
    let due = lock.here(|table, at| table.locks.take_up(at, now.millis()));
    if due.expired {
        sessions::revive(lock, now);
    }
    let mut all = end_lapsed(lock, now);
    let mut must_go_on = due.records && !end_missing(lock, due.recheck);
    if due.undeliverable {
        all &= take_back_all(lock);
    }
    if due.session {
        all &= settle_sessions(lock, due.sessions, now);
    }
    body(lock, all);
    must_go_on |= !reenter_all(lock, due.recheck, now);
    if must_go_on || !all {
        lock.here(|table, at| table.locks.recheck_by(at, 0));
    }
    if lock.has_room() {
        grant_heads(lock, false, now);
    }
    look_when_one_ends(lock, now);
    if due.watched {
        // A holder that has not claimed its grant yet is not told that somebody waits for the lock. If this step took back an unclaimed
        // hold, and the grant goes on with other holds, its holder must be told now.
        lock.here(|table, at| table.listeners().tell_wanted(at));
    }
    all
}

/// Whether a grant or hold still has to be removed: its lease is over, its connection has closed, or its waiter went away before it was
/// told.
fn has_ended_grants<S: LockAccess>(lock: &mut S, now: Now) -> bool {
    let has_lapsed =
        lock.value().is_some_and(|value| value.lapsed(lock.deadline(), now.millis()).next().is_some());
    has_lapsed || lock.here(|table, at| table.has_left(at))
}

/// Brings the grant of one owner up to date, and nothing else of the lock. Serves no waiters. Returns whether the owner then holds the
/// lock.
#[cold]
#[inline(never)]
pub(super) fn settle_own<S: LockAccess>(lock: &mut S, owner: &Owner<'_>, now: Now) -> bool {
    let fence_of = |lock: &S| lock.value().and_then(|value| value.grant_of(owner)).map(Grant::fence);
    let Some(fence) = fence_of(lock) else { return false };
    if !lock.idle() {
        if let Some(holds) = lock.change(|entry| entry.take_undeliverable_of(fence)).flatten() {
            take_back(lock, fence, holds);
        }
        if let Some(session) = lock.here(|table, at| table.session(at, fence)) {
            settle_session(lock, session, now);
        }
    }
    let is_over = lock.with_fence(fence).is_some_and(|held| held.deadline < Deadline::At(now.millis()));
    let is_one = lock.value().is_none_or(Value::is_one);
    if is_over && !is_one && !sessions::renew_overdue(lock, fence, now) {
        end(lock, &[fence], LockEvent::Lapsed);
    }
    fence_of(lock) == Some(fence)
}

/// Drops what the table knows about grants that are not in the key any more, and has their holders told. If there are many of these grants,
/// the next step handles the rest. With `recheck`, somebody may have shortened leases: waiters that are still to be told of such a grant are
/// told of its present lease. Returns whether this step has handled all.
fn end_missing<S: LockAccess>(lock: &mut S, recheck: bool) -> bool {
    let (mut seen, mut checked, mut all) = (None, 0, true);
    while let Some(fence) = lock.entry(|entry| entry.next_known(seen)) {
        debug_assert!(seen < Some(fence), "{fence:?} comes after {seen:?}");
        seen = Some(fence);
        checked += 1;
        if !lock.has_fence(fence) {
            lock.here(|table, at| table.end_grant(at, fence, Some(MessageKind::Lost)));
            if !lock.pay(CHANGE) {
                all = false;
                break;
            }
        } else if recheck && let Some(until) = lock.with_fence(fence).map(|held| held.deadline) {
            checked += lock.here(|table, at| table.shorten_answers(at, fence, until));
        }
    }
    lock.spend(scan(checked));
    all
}

/// Lets waiters whose owners already hold the lock re-enter it. Before this, checks whether a grant that its owner waits to upgrade has
/// ended (see `check_upgrade`). Returns whether this step has handled all such waiters.
fn reenter_all<S: LockAccess>(lock: &mut S, recheck: bool, now: Now) -> bool {
    check_upgrade(lock);
    let several = match lock.value() {
        Some(Value::One(grant)) => {
            let owner = grant.owner().into_owned();
            reenter(lock, &owner, now);
            return true;
        }
        Some(value) if recheck => value.count(),
        _ => return true,
    };
    let waiters = lock.entry(|entry| entry.waiters());
    if !lock.pay(scan(several.min(waiters))) {
        return false;
    }
    for owner in holders_or_waiters(lock) {
        reenter(lock, &owner, now);
        lock.pay(LOOKUP);
    }
    true
}

/// Returns the owners that hold a lock, or the owners that wait for it, whichever are fewer.
fn holders_or_waiters<S: LockAccess>(lock: &mut S) -> Vec<Owner<'static>> {
    let waiters = lock.entry(|entry| entry.waiters());
    match lock.value().filter(|value| value.count() < waiters) {
        Some(value) => value.all(lock.deadline()).map(|held| held.grant.owner().into_owned()).collect(),
        None => lock.here(|table, at| table.owners_of(at)).into_iter().collect(),
    }
}

/// Takes back one hold for each waiter that went away before it was told of its grant. Returns whether this step has taken back all such
/// holds.
fn take_back_all<S: LockAccess>(lock: &mut S) -> bool {
    while let Some((fence, holds)) = lock.change(LockEntry::take_undeliverable).flatten() {
        take_back(lock, fence, holds);
        if !lock.pay(CHANGE) {
            return !lock.entry(|entry| entry.has_undeliverable());
        }
    }
    true
}

fn take_back<S: LockAccess>(lock: &mut S, fence: Fence, holds: u32) {
    let Some(held) = lock.with_fence(fence) else { return };
    let until = held.deadline;
    match lock::take_back(held.grant, holds) {
        Released::Kept { holds } => lock.update(fence, GrantChange::holds(holds), until),
        Released::Ended => end(lock, &[fence], LockEvent::TakenBack),
    }
}
