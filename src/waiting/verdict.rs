//! Decides about a request for one lock, and carries that out.

use super::access::{LockAccess, LockEvent, LocksAccess, Refusal};
use super::hand_over::{enter_again, give};
use super::join::Conflict;
use super::leases::look_when_one_ends;
use super::sessions::lease_of;
use super::settle::settle_own;
use super::table::RequestId;
use crate::lock::{self, AcquireRequest, Acquired, Deadline, Fence, Got, Now, ReentryError, Room};

/// The decision about a request for one lock. Nothing has been done yet.
pub(super) enum Verdict {
    /// There is room: a new grant, until then.
    New {
        until: Deadline,
        alone: bool,
    },
    /// The owner holds it already, and is to hold it so from now on.
    Again {
        fence: Fence,
        holds: u32,
        room: Room,
        until: Deadline,
        upgraded: bool,
    },
    Not(Conflict),
}

/// The decision if the lock could not be settled: an owner still has what it has of the lock; for all others the lock counts as taken.
#[cold]
#[inline(never)]
pub(super) fn judge_unsettled<S: LockAccess>(
    lock: &mut S,
    ask: &AcquireRequest<'_>,
    now: Now,
) -> Result<Verdict, ReentryError> {
    let verdict = if settle_own(lock, &ask.owner, now) { Some(judge(lock, ask, None, now)?) } else { None };
    Ok(match verdict {
        Some(Verdict::Not(conflict)) => Verdict::Not(Conflict { upgrade: None, unsettled: true, ..conflict }),
        Some(verdict) => verdict,
        None => Verdict::Not(Conflict { refused: None, upgrade: None, unsettled: true }),
    })
}

/// The decision about a request if the lock has been settled. `request`: the number of one that is in the queue already.
#[inline(always)]
pub(super) fn judge<S: LockAccess>(
    lock: &mut S,
    ask: &AcquireRequest<'_>,
    request: Option<RequestId>,
    now: Now,
) -> Result<Verdict, ReentryError> {
    let limits = lock.limits();
    let (held, others) = lock.seen_by(&ask.owner);
    let mine = held.map(|held| (held.grant.fence(), held.grant.room()));
    let alone = others.count == 0;
    let not = |refused, upgrade| Verdict::Not(Conflict { refused, upgrade, unsettled: false });
    Ok(match (lock::acquire(held, others, ask, limits, now.start)?, mine) {
        (Acquired::Granted { deadline: until }, _) => match may_grant(lock, request) {
            Ok(()) => Verdict::New { until, alone },
            Err(refused) => not(refused, None),
        },
        (Acquired::Reentered { holds, deadline }, Some((fence, room))) => {
            let until = lease_of(lock, fence, deadline);
            Verdict::Again { fence, holds, room, until, upgraded: false }
        }
        (Acquired::Upgraded { holds, deadline }, Some((fence, room))) => match lock.grace().grants {
            0 => {
                let until = lease_of(lock, fence, deadline);
                Verdict::Again { fence, holds, room: room.min(ask.room), until, upgraded: true }
            }
            // Grants that another server made may be lost.
            left => not(Some(Refusal::Grace(left)), Some(fence)),
        },
        (Acquired::UpgradeRefused, Some((fence, _))) => not(None, Some(fence)),
        _ => not(None, None),
    })
}

/// Whether a request for which there is room may be granted now; otherwise, the error for a client that does not wait. In a grace, nobody is granted
/// it. And not before those who wait, for whom a grace may have ended only just now.
#[inline(always)]
fn may_grant<S: LockAccess>(lock: &mut S, request: Option<RequestId>) -> Result<(), Option<Refusal>> {
    match lock.grace().grants {
        0 if lock.idle() => Ok(()),
        0 => is_next(lock, request),
        left => Err(Some(Refusal::Grace(left))),
    }
}

/// Apart, so that an idle lock does not pay for it.
#[inline(never)]
fn is_next<S: LockAccess>(lock: &mut S, request: Option<RequestId>) -> Result<(), Option<Refusal>> {
    let (head, reserved) =
        lock.here(|table, at| (table.head(at).map(|(head, _)| head), table.reserved_for(at).is_some()));
    if head.is_none() || head == request {
        Ok(())
    } else if reserved || lock.value().is_some() {
        Err(None)
    } else {
        Err(Some(Refusal::Grace(1)))
    }
}

/// Does what a verdict says: what is granted by it, and the end of the lease. `fence`: of a new grant, where it is given already.
#[inline(always)]
pub(super) fn take<S: LockAccess>(
    lock: &mut S,
    ask: &AcquireRequest<'_>,
    verdict: Verdict,
    fence: Option<Fence>,
    now: Now,
) -> Result<(Got, Deadline), Refusal> {
    match verdict {
        Verdict::New { until, alone } => {
            let fence = fence.or_else(|| lock.next_fence(now)).ok_or(Refusal::NoMoreFences)?;
            let got = give(lock, ask, fence, until, alone, now);
            lock.note(LockEvent::Acquired);
            if !alone {
                look_when_one_ends(lock, now);
            }
            Ok((got, until))
        }
        Verdict::Again { fence, holds, room, until, upgraded } => {
            Ok((enter_again(lock, ask, fence, holds, room, until, upgraded), until))
        }
        Verdict::Not(conflict) => Err(conflict.refused.unwrap_or(Refusal::NotHeld)),
    }
}

/// The fence of all new grants, where there are such.
pub(super) fn new_fence<B: LocksAccess>(
    locks: &mut B,
    verdicts: &[Verdict],
    now: Now,
) -> Result<Option<Fence>, Refusal> {
    let is_new = verdicts.iter().any(|verdict| matches!(verdict, Verdict::New { .. }));
    match locks.lock(0).filter(|_| is_new) {
        Some(lock) => lock.next_fence(now).map(Some).ok_or(Refusal::NoMoreFences),
        None => Ok(None),
    }
}
