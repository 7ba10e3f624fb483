//! Grants the locks of a request: to the client of the running command, or to a waiter.

use super::access::{Environment, LockAccess, LockEvent};
use super::lapse::{lease_moved, look_when_one_ends};
use super::lock_set::LocksAccess;
use super::table::RequestId;
use super::verdict::{Decision, GrantKind};
use crate::lock::{AcquireRequest, Deadline, Fence, Got, GrantChange, Now};

/// The plan for one lock: a new grant, or a change of the owner's grant.
#[derive(Clone, Copy, Debug)]
pub(super) struct Planned {
    pub(super) fence: Fence,
    pub(super) decision: Decision,
}

/// A grant that has been made or re-entered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Granted {
    pub(super) got: Got,
    pub(super) until: Deadline,
    pub(super) is_new: bool,
}

/// Plans the grants of a request, and changes no lock yet. All new grants get the same fence. Returns `None` if a new grant is needed, but
/// can't be made (see `next_fence`).
#[inline(always)]
pub(super) fn plan<B: LocksAccess>(
    locks: &mut B,
    decisions: &B::Each<Decision>,
    now: Now,
) -> Option<B::Each<Planned>> {
    let mut new = None;
    let planned = locks.try_with(decisions, |lock, decision| {
        let fence = decision.kind.earlier().or_else(|| {
            new = new.or_else(|| lock.next_fence(now));
            new
        });
        fence.map(|fence| Planned { fence, decision: *decision }).ok_or(())
    });
    planned.ok()
}

/// Makes the planned grants, for the client of the running command, or, with `WAITED`, for a waiter. Returns the grants, and the end of the
/// lease that ends first.
#[inline(always)]
pub(super) fn carry_out<const WAITED: bool, B: LocksAccess>(
    locks: &mut B,
    ask: &AcquireRequest<'_>,
    planned: &B::Each<Planned>,
    now: Now,
) -> (B::Each<Granted>, Deadline) {
    let mut first_deadline = Deadline::Never;
    let granted = locks.with(planned, |lock, planned| {
        let granted = grant::<WAITED, _>(lock, ask, *planned, now);
        first_deadline = first_deadline.min(granted.until);
        granted
    });
    (granted, first_deadline)
}

/// Grants one lock. No other code makes grants, except `sessions::revive`, which gives a grant back to its owner.
#[inline(always)]
pub(super) fn grant<const WAITED: bool, S: LockAccess>(
    lock: &mut S,
    ask: &AcquireRequest<'_>,
    planned: Planned,
    now: Now,
) -> Granted {
    let Planned { fence, decision: Decision { kind, holds, room, slot, until } } = planned;
    let is_new = kind.earlier().is_none();
    if is_new {
        if !room.is_exclusive() {
            lock.note(LockEvent::Shared);
        }
        let grant = ask.grant(fence, slot, now);
        if kind == GrantKind::Alone {
            lock.give(grant, until);
        } else {
            lock.add(grant, until);
        }
        lock.note(if WAITED { LockEvent::HandedOver } else { LockEvent::Acquired });
        if kind == GrantKind::Beside && !WAITED {
            look_when_one_ends(lock, now);
        }
    } else {
        if slot.is_some() {
            recheck_waits_of_owner(lock, fence);
        }
        let change = GrantChange { holds: Some(holds), room: Some(room), slot, label: ask.label() };
        lock.update(fence, change, until);
        lock.note(LockEvent::Reentered);
        if matches!(kind, GrantKind::Upgrade(_)) {
            lock.note(LockEvent::Upgraded);
        }
    }
    Granted { got: Got { fence, holds, slot }, until, is_new }
}

/// If this grant is about to get its first slot (the number of a permit), sets a timer for the lock. Other waits of the same owner may ask
/// for another slot, which they can't get any more, and the timer has them told so.
#[inline(never)]
fn recheck_waits_of_owner<S: LockAccess>(lock: &mut S, fence: Fence) {
    let is_first = lock.with_fence(fence).is_some_and(|held| held.grant.slot().is_none());
    if is_first && !lock.idle() {
        lock.here(|table, at| table.locks.recheck_by(at, 0));
    }
}

/// Grants a waiter all its locks. A timer tells the waiter later. Returns the grant of each lock. Returns `None` if a new grant can't be
/// made (see `next_fence`), and the waiter goes on waiting.
pub(super) fn grant_to_waiter<B: LocksAccess>(
    locks: &mut B,
    request: RequestId,
    ask: &AcquireRequest<'_>,
    decisions: &B::Each<Decision>,
    now: Now,
) -> Option<B::Each<Granted>> {
    let planned = plan(locks, decisions, now)?;
    let (granted, until) = carry_out::<true, B>(locks, ask, &planned, now);
    let all = locks.with(&granted, |_, granted| granted.got);
    let first = locks.first();
    if let Some(waited) = first.table(|table| table.grant(request, B::all(&all), until, now)) {
        first.note(LockEvent::Waited(waited));
    }
    share_holds(locks, request, ask, &granted);
    locks.with(&granted, |lock, granted| lease_moved(lock, granted.got.fence, granted.until, now));
    Some(granted)
}

/// With `ONCE`, a waiter adds no hold to a grant that its owner already has. For each grant like this, notes that the waiter shares a hold
/// of its owner, and has no hold of its own. So if the waiter goes away before it is told, the module does not take a hold back that the
/// waiter never added.
pub(super) fn share_holds<B: LocksAccess>(
    locks: &mut B,
    request: RequestId,
    ask: &AcquireRequest<'_>,
    granted: &B::Each<Granted>,
) {
    if !ask.once {
        return;
    }
    locks.with(granted, |lock, granted| {
        if !granted.is_new {
            lock.change(|entry| entry.share_hold_with(granted.got.fence, request));
        }
    });
}
