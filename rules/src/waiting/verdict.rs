//! Decides about a request for one lock. Nothing here changes the lock.

use super::access::LockAccess;
use super::sessions::lease_of;
use super::table::RequestId;
use crate::lock::{
    self, AcquireRequest, Acquired, Deadline, Fence, Millis, Now, Others, ReentryError, Room, Slot,
};

/// The verdict about a request for one lock: how the lock is to be granted, or why it can't be granted now.
pub(super) type Verdict = Result<Decision, Conflict>;

/// How a lock is to be granted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Decision {
    pub(super) kind: GrantKind,
    pub(super) holds: u32,
    pub(super) room: Room,
    /// The slot of the grant (the number of a permit), if the request asks for a slot (`LIMIT`).
    pub(super) slot: Option<Slot>,
    pub(super) until: Deadline,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GrantKind {
    /// A new grant of a lock that nobody holds.
    Alone,
    /// A new grant beside grants of others.
    Beside,
    /// A re-entry of the owner's grant.
    Reentry(Fence),
    /// A re-entry that reduces the number of holders that the owner's grant allows, or that gives this grant its first slot.
    Upgrade(Fence),
}

impl GrantKind {
    /// Returns the fence of the owner's earlier grant; `None` for a new grant.
    pub(super) fn earlier(self) -> Option<Fence> {
        match self {
            Self::Alone | Self::Beside => None,
            Self::Reentry(fence) | Self::Upgrade(fence) => Some(fence),
        }
    }
}

/// Why a lock can't be granted now.
#[derive(Clone, Copy, Debug)]
pub(super) struct Conflict {
    /// If the request fits, but has to wait because of a grace: for how many more ms the server grants nothing new. `None` if the request
    /// has to wait for others. A client that does not want to wait gets an error because of a grace, and null because of others.
    pub(super) grace: Option<Millis>,
    /// The fence of the owner's own grant, if the request is for an upgrade (a re-entry that allows fewer other holders), and so goes ahead
    /// of the queue. Also `None` if the lock is not settled: otherwise another owner's upgrade that is already over could be a reason to
    /// refuse this request.
    pub(super) upgrade: Option<Fence>,
    /// Whether the lock still has grants that have ended but have not been removed. If so, a timer settles the lock at once.
    pub(super) unsettled: bool,
}

/// The position of a request when `judge` decides about it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Standing {
    /// The client has just asked, and is in no queue.
    New,
    /// The request is in the queue, perhaps behind others.
    Queued(RequestId),
    /// The request is the first in the queue. `over` says that the grant in the key has ended, and is to be replaced.
    First { over: bool },
}

/// Adapts a verdict to a lock from which not all ended grants could be removed, because the budget was used up. An owner may re-enter its
/// own grant. For everybody else, the lock counts as taken.
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

/// Returns the verdict about a request for a lock that has been settled (brought up to date), or an error if a re-entry is impossible.
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
        (Acquired::Granted { slot, deadline: until }, _) => match may_grant(lock, standing, now) {
            Ok(()) => {
                let kind = if alone { GrantKind::Alone } else { GrantKind::Beside };
                Ok(Decision { kind, holds: 1, room: ask.room, slot, until })
            }
            Err(grace) => not(grace, None),
        },
        (Acquired::Reentered { holds, slot, deadline }, Some((fence, room))) => {
            let until = lease_of(lock, fence, deadline);
            Ok(Decision { kind: GrantKind::Reentry(fence), holds, room, slot, until })
        }
        (Acquired::Upgraded { holds, slot, deadline }, Some((fence, room))) => match lock.grace().grants {
            0 => {
                let until = lease_of(lock, fence, deadline);
                Ok(Decision { kind: GrantKind::Upgrade(fence), holds, room: room.min(ask.room), slot, until })
            }
            // A failover may have lost grants of other owners, for which the upgraded grant would have no room. So an upgrade waits until
            // the grace is over.
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

/// Decides whether a request that fits may be granted now. The request has to wait during a grace, and while somebody waits ahead of it,
/// even if the grace has just ended. The error is the `grace` of the `Conflict`.
#[inline(always)]
fn may_grant<S: LockAccess>(lock: &mut S, standing: Standing, now: Now) -> Result<(), Option<Millis>> {
    match (lock.grace().grants, standing) {
        (0, Standing::First { .. }) => Ok(()),
        (0, Standing::New) if lock.idle() => Ok(()),
        (0, Standing::New) => is_next(lock, None, now),
        (0, Standing::Queued(request)) => is_next(lock, Some(request), now),
        (left, _) => Err(Some(left)),
    }
}

/// Returns an error, which is the `grace` of the `Conflict`, if somebody waits ahead of a request. This function is not inlined, so that a
/// lock without a queue does not pay for it.
#[inline(never)]
fn is_next<S: LockAccess>(lock: &mut S, request: Option<RequestId>, now: Now) -> Result<(), Option<Millis>> {
    let (head, reserved) =
        lock.here(|table, at| (table.head(at).map(|(head, _)| head), table.reserved_for(at).is_some()));
    if head.is_none() || head == request {
        Ok(())
    } else if reserved || lock.value().is_some() {
        Err(None)
    } else if lock.next_fence(now).is_none() {
        // The waiters ahead can't be granted the lock either, so the request is not refused because of them.
        Ok(())
    } else {
        Err(Some(1))
    }
}
