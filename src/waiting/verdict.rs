//! Decides about a request for one lock. Nothing here changes the lock.

use super::access::LockAccess;
use super::sessions::lease_of;
use super::table::RequestId;
use crate::lock::{
    self, AcquireRequest, Acquired, Deadline, Fence, Millis, Now, Others, ReentryError, Room, Slot,
};

/// The verdict about a request for one lock, unless the request is impossible.
pub(super) type Verdict = Result<Decision, Conflict>;

/// The lock can be granted, and is to be held in this way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Decision {
    pub(super) kind: GrantKind,
    pub(super) holds: u32,
    pub(super) room: Room,
    /// The slot of the grant, if the request asks for one.
    pub(super) slot: Option<Slot>,
    pub(super) until: Deadline,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GrantKind {
    /// A new grant of a lock that nobody holds.
    Alone,
    /// A new grant, beside others.
    Beside,
    /// A re-entry of the owner's grant.
    Again(Fence),
    /// A re-entry that leaves the owner's grant less room, or gives it a slot.
    Upgrade(Fence),
}

impl GrantKind {
    /// The fence of the grant by which the owner holds the lock already.
    pub(super) fn earlier(self) -> Option<Fence> {
        match self {
            Self::Alone | Self::Beside => None,
            Self::Again(fence) | Self::Upgrade(fence) => Some(fence),
        }
    }
}

/// Why a lock can't be granted now.
#[derive(Clone, Copy, Debug)]
pub(super) struct Conflict {
    /// Set if there is room, but the server grants nothing new for this many ms: a client that does not wait gets an error. `None` if there
    /// is no room: such a client gets null.
    pub(super) grace: Option<Millis>,
    /// The owner's own grant, if the request asks for less room than that grant has: such a request goes ahead of the queue. `None` if the
    /// lock is not settled, since another request that is ahead may be over.
    pub(super) upgrade: Option<Fence>,
    /// Some grants that are over have not been ended yet. The lock is looked at again at once.
    pub(super) unsettled: bool,
}

/// Where a request stands when it is judged.
#[derive(Clone, Copy, Debug)]
pub(super) enum Standing {
    /// The client has just asked, and is in no queue.
    New,
    /// The request is in the queue, perhaps behind others.
    Queued(RequestId),
    /// The request is the first in the queue. `over`: the grant in the key has ended, and is to be replaced.
    First { over: bool },
}

/// Changes a verdict to fit a lock that could not be settled: an owner may re-enter the grant that it has, and for all others the lock
/// counts as taken.
#[cold]
#[inline(never)]
pub(super) fn unsettled(verdict: Verdict) -> Verdict {
    match verdict {
        Ok(decision) if decision.kind.earlier().is_some() => Ok(decision),
        Ok(_) => Err(Conflict { grace: None, upgrade: None, unsettled: true }),
        Err(Conflict { grace, upgrade, .. }) => {
            Err(Conflict { grace: grace.filter(|_| upgrade.is_some()), upgrade: None, unsettled: true })
        }
    }
}

/// The verdict about a request, if the lock has been settled.
#[inline(always)]
pub(super) fn judge<S: LockAccess>(
    lock: &mut S,
    ask: &AcquireRequest<'_>,
    standing: Standing,
    now: Now,
) -> Result<Verdict, ReentryError> {
    let limits = lock.limits();
    let is_over = matches!(standing, Standing::First { over: true });
    let (held, others) = if is_over { (None, Others::NONE) } else { lock.seen_by(&ask.owner) };
    let alone = others.count == 0;
    let earlier = held.map(|held| (held.grant.fence(), held.grant.room()));
    let not = |grace, upgrade| Err(Conflict { grace, upgrade, unsettled: false });
    Ok(match (lock::decide_acquire(held, others, ask, limits, now.start)?, earlier) {
        (Acquired::Granted { slot, deadline: until }, _) => match may_grant(lock, standing) {
            Ok(()) => {
                let kind = if alone { GrantKind::Alone } else { GrantKind::Beside };
                Ok(Decision { kind, holds: 1, room: ask.room, slot, until })
            }
            Err(grace) => not(grace, None),
        },
        (Acquired::Reentered { holds, slot, deadline }, Some((fence, room))) => {
            let until = lease_of(lock, fence, deadline);
            Ok(Decision { kind: GrantKind::Again(fence), holds, room, slot, until })
        }
        (Acquired::Upgraded { holds, slot, deadline }, Some((fence, room))) => match lock.grace().grants {
            0 => {
                let until = lease_of(lock, fence, deadline);
                Ok(Decision { kind: GrantKind::Upgrade(fence), holds, room: room.min(ask.room), slot, until })
            }
            // A failover may have lost grants that another server made.
            left => not(Some(left), Some(fence)),
        },
        (Acquired::UpgradeRefused, Some((fence, _))) => not(None, Some(fence)),
        (Acquired::Refused, _) => not(None, None),
        (Acquired::Reentered { .. } | Acquired::Upgraded { .. } | Acquired::UpgradeRefused, None) => {
            debug_assert!(false, "only an owner that holds the lock re-enters it");
            not(None, None)
        }
    })
}

/// Decides whether a request for which there is room may be granted now. The error says for how long nothing new is granted (see
/// `Conflict`). In a grace, nothing is granted. Waiters go first, since a grace may have ended just now.
#[inline(always)]
fn may_grant<S: LockAccess>(lock: &mut S, standing: Standing) -> Result<(), Option<Millis>> {
    match (lock.grace().grants, standing) {
        (0, Standing::First { .. }) => Ok(()),
        (0, Standing::New) if lock.idle() => Ok(()),
        (0, Standing::New) => is_next(lock, None),
        (0, Standing::Queued(request)) => is_next(lock, Some(request)),
        (left, _) => Err(Some(left)),
    }
}

/// Refuses a request if somebody waits ahead of it. It is not inlined, so that an idle lock does not pay for it.
#[inline(never)]
fn is_next<S: LockAccess>(lock: &mut S, request: Option<RequestId>) -> Result<(), Option<Millis>> {
    let (head, reserved) =
        lock.here(|table, at| (table.head(at).map(|(head, _)| head), table.reserved_for(at).is_some()));
    if head.is_none() || head == request {
        Ok(())
    } else if reserved || lock.value().is_some() {
        Err(None)
    } else {
        Err(Some(1))
    }
}
