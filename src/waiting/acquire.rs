//! An acquire of one lock: granted, re-entered, refused, or put into the queue.

use super::alarms::{lease_moved, look_when_one_ends};
use super::hand_over::{enter_again, give};
use super::join::{self, No, Outcome, Wait};
use super::sessions;
use super::settle::settle;
use super::site::{Alone, Caller, Note, Refusal, Site};
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

/// Takes a lock, or waits for it: what is granted, and the end of the lease.
pub(crate) fn acquire<S: Site>(
    site: &mut S,
    caller: &mut impl Caller<S>,
    ask: &Ask<'_>,
    wait: &Wait,
    now: Now,
) -> Result<Outcome<(Got, Deadline)>, Refusal> {
    settle(site, now);
    match judge(site, ask, None, now)? {
        Verdict::Not(no) => join::wait(&mut Alone(site), caller, ask, wait, &[(0, no)], now),
        verdict => {
            let (got, until) = take(site, ask, verdict, None, now)?;
            keep(site, caller.id(), ask, wait, got.fence, until, now);
            Ok(Outcome::Granted((got, until)))
        }
    }
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
    let not = |refused, upgrade| Verdict::Not(No { refused, upgrade });
    Ok(match (lock::acquire(held, others, ask, limits, now.start)?, mine) {
        (Acquired::Granted { deadline: until }, _) => match may_grant(site, ticket) {
            Ok(()) => Verdict::New { until, alone: others.count == 0 },
            Err(refused) => not(refused, None),
        },
        (Acquired::Reentered { holds, deadline: until }, Some((fence, room))) => {
            Verdict::Again { fence, holds, room, until, upgraded: false }
        }
        (Acquired::Upgraded { holds, deadline: until }, Some((fence, _))) => match site.grace().grants {
            0 => Verdict::Again { fence, holds, room: ask.room, until, upgraded: true },
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
            if ask.once && !site.idle() {
                site.here(|state, at| state.share_hold(at, fence));
            }
            Ok((Got { fence, holds }, until))
        }
        Verdict::Not(no) => Err(no.refused.unwrap_or(Refusal::NotHeld)),
    }
}

/// What hangs on a grant of a running command: who hears of it, and what keeps it alive.
#[inline(always)]
pub(super) fn keep<S: Site>(
    site: &mut S,
    client: u64,
    ask: &Ask<'_>,
    wait: &Wait,
    fence: Fence,
    until: Deadline,
    now: Now,
) {
    if let Some(channel) = &wait.channel {
        let owner = ask.owner.borrowed().into_owned();
        site.here(|state, at| state.watch(at, fence, owner, channel.clone()));
        lease_moved(site, fence, until, now);
    }
    if ask.session {
        sessions::start(site, client, fence, ask.lease, until, now);
    }
}
