//! What an ask comes to on one lock, and how that is done.

use super::hand_over::{enter_again, give};
use super::join::No;
use super::leases::look_when_one_ends;
use super::sessions::lease_of;
use super::settle::settle_own;
use super::site::{Note, Refusal, Site, Sites};
use super::state::Ticket;
use crate::lock::{self, Acquired, Ask, Deadline, Fence, Got, Now, Room};

/// What an ask comes to on one lock. Nothing has been done yet.
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
    Not(No),
}

/// What an ask comes to on a lock that could not be settled: what its owner has of it is its own; else it counts as taken.
#[cold]
#[inline(never)]
pub(super) fn judge_unsettled<S: Site>(site: &mut S, ask: &Ask<'_>, now: Now) -> Result<Verdict, Refusal> {
    let verdict = if settle_own(site, &ask.owner, now) { Some(judge(site, ask, None, now)?) } else { None };
    Ok(match verdict {
        Some(Verdict::Not(no)) => Verdict::Not(No { upgrade: None, unsettled: true, ..no }),
        Some(verdict) => verdict,
        None => Verdict::Not(No { refused: None, upgrade: None, unsettled: true }),
    })
}

/// What an ask comes to, where the lock has been settled. `ticket`: of one that stands in the queue already.
#[inline(always)]
pub(super) fn judge<S: Site>(
    site: &mut S,
    ask: &Ask<'_>,
    ticket: Option<Ticket>,
    now: Now,
) -> Result<Verdict, Refusal> {
    let limits = site.limits();
    let (held, others) = site.seen_by(&ask.owner);
    let mine = held.map(|held| (held.grant.fence(), held.grant.room()));
    let not = |refused, upgrade| Verdict::Not(No { refused, upgrade, unsettled: false });
    Ok(match (lock::acquire(held, others, ask, limits, now.start)?, mine) {
        (Acquired::Granted { deadline: until }, _) => match may_grant(site, ticket) {
            Ok(()) => Verdict::New { until, alone: others.count == 0 },
            Err(refused) => not(refused, None),
        },
        (Acquired::Reentered { holds, deadline }, Some((fence, room))) => {
            let until = lease_of(site, fence, deadline);
            Verdict::Again { fence, holds, room, until, upgraded: false }
        }
        (Acquired::Upgraded { holds, deadline }, Some((fence, _))) => match site.grace().grants {
            0 => {
                let until = lease_of(site, fence, deadline);
                Verdict::Again { fence, holds, room: ask.room, until, upgraded: true }
            }
            // What others have been granted elsewhere may be lost.
            left => not(Some(Refusal::Grace(left)), Some(fence)),
        },
        (Acquired::UpgradeRefused, Some((fence, _))) => not(None, Some(fence)),
        _ => not(None, None),
    })
}

/// Whether what there is room for may be granted now; else what a client that does not wait is told. In a grace, nobody is granted
/// it. And not before those who wait, for whom a grace may have ended only just now.
#[inline(always)]
fn may_grant<S: Site>(site: &mut S, ticket: Option<Ticket>) -> Result<(), Option<Refusal>> {
    match site.grace().grants {
        0 if site.idle() => Ok(()),
        0 => is_next(site, ticket),
        left => Err(Some(Refusal::Grace(left))),
    }
}

/// Apart, so that an idle lock does not pay for it.
#[inline(never)]
fn is_next<S: Site>(site: &mut S, ticket: Option<Ticket>) -> Result<(), Option<Refusal>> {
    let (head, reserved) =
        site.here(|state, at| (state.head(at).map(|(head, _)| head), state.reserved_for(at).is_some()));
    if head.is_none() || head == ticket {
        Ok(())
    } else if reserved || site.value().is_some() {
        Err(None)
    } else {
        Err(Some(Refusal::Grace(1)))
    }
}

/// Does what a verdict says: what is granted by it, and the end of the lease. `fence`: of a new grant, where it is given already.
#[inline(always)]
pub(super) fn take<S: Site>(
    site: &mut S,
    ask: &Ask<'_>,
    verdict: Verdict,
    fence: Option<Fence>,
    now: Now,
) -> Result<(Got, Deadline), Refusal> {
    match verdict {
        Verdict::New { until, alone } => {
            let fence = fence.or_else(|| site.next_fence(now)).ok_or(Refusal::NoMoreFences)?;
            give(site, ask, fence, until, alone, now);
            site.note(Note::Acquired);
            if !alone {
                look_when_one_ends(site, now);
            }
            Ok((Got { fence, holds: 1 }, until))
        }
        Verdict::Again { fence, holds, room, until, upgraded } => {
            enter_again(site, fence, holds, room, until, upgraded);
            Ok((Got { fence, holds }, until))
        }
        Verdict::Not(no) => Err(no.refused.unwrap_or(Refusal::NotHeld)),
    }
}

/// The fence of all new grants, where there are such.
pub(super) fn new_fence<B: Sites>(
    sites: &mut B,
    verdicts: &[Verdict],
    now: Now,
) -> Result<Option<Fence>, Refusal> {
    let is_new = verdicts.iter().any(|verdict| matches!(verdict, Verdict::New { .. }));
    match sites.lock(0).filter(|_| is_new) {
        Some(site) => site.next_fence(now).map(Some).ok_or(Refusal::NoMoreFences),
        None => Ok(None),
    }
}
