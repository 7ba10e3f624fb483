//! An acquire: granted, re-entered, refused, or put into the queue.

use super::alarms::lease_moved;
use super::sessions;
use super::settle::settle;
use super::site::{Caller, Note, Refusal, Site};
use super::state::Arrival;
use crate::lock::{self, Acquired, Ask, Deadline, Fence, Grant, Millis, Now};

/// What comes of an acquire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Granted {
        fence: Fence,
        holds: u32,
        until: Deadline,
    },
    /// The client waits.
    Waits,
    /// The lock is somebody else's.
    Taken,
}

/// `block`: how long to wait, in ms, where it is asked for; 0: without limit.
pub(crate) fn acquire<S: Site>(
    site: &mut S,
    caller: &mut impl Caller<S>,
    ask: &Ask<'_>,
    block: Option<Millis>,
    now: Now,
) -> Result<Outcome, Refusal> {
    settle(site, now);
    let limits = site.limits();
    let held = site.held();
    let fence = held.map(|held| held.grant.fence());
    let (fence, holds, until) = match (lock::acquire(held, ask, limits, now.start)?, fence) {
        (Acquired::Reentered { holds, deadline }, Some(fence)) => {
            site.update(holds, deadline);
            if ask.once && !site.idle() {
                site.here(|state, at| state.share_hold(at, fence));
            }
            site.note(Note::Reentered);
            (fence, holds, deadline)
        }
        (Acquired::Granted { deadline }, _) => {
            // In a grace, nobody is granted what is free; waiters queue up for its end.
            if let Err(grace) = may_grant(site) {
                return wait_or(site, caller, ask, block, now, Err(grace));
            }
            let fence = site.next_fence(now).ok_or(Refusal::NoMoreFences)?;
            let owner = ask.owner.borrowed();
            site.give(Grant::new(owner, fence, 1, ask.max_hold, now.millis()), deadline);
            site.note(Note::Acquired);
            (fence, 1, deadline)
        }
        _ => return wait_or(site, caller, ask, block, now, Ok(Outcome::Taken)),
    };
    if ask.session {
        sessions::start(site, caller.id(), fence, ask.lease, until, now);
    }
    Ok(Outcome::Granted { fence, holds, until })
}

/// Whether a free lock may be granted to a client that comes now. Not before those who wait for it, for whom the grace ended
/// only just now.
fn may_grant<S: Site>(site: &mut S) -> Result<(), Refusal> {
    match site.grace().grants {
        0 if !site.idle() && site.here(|state, at| state.waiters_of(at)) > 0 => Err(Refusal::Grace(1)),
        0 => Ok(()),
        left => Err(Refusal::Grace(left)),
    }
}

/// Puts the client into the queue, or refuses it so where it doesn't want to wait or can't.
fn wait_or<S: Site>(
    site: &mut S,
    caller: &mut impl Caller<S>,
    ask: &Ask<'_>,
    block: Option<Millis>,
    now: Now,
    refused: Result<Outcome, Refusal>,
) -> Result<Outcome, Refusal> {
    let waits = match block {
        Some(timeout) => join(site, caller, ask, timeout, now),
        None => Ok(false),
    };
    if waits == Ok(true) {
        return Ok(Outcome::Waits);
    }
    site.note(Note::Refused);
    waits.and(refused)
}

/// Whether the client waits now. If not, nothing has been done.
fn join<S: Site>(
    site: &mut S,
    caller: &mut impl Caller<S>,
    ask: &Ask<'_>,
    timeout: Millis,
    now: Now,
) -> Result<bool, Refusal> {
    if !caller.may_block() {
        return Ok(false);
    }
    let waiting = site.here(|state, at| state.waiters_of(at));
    if caller.max_waiters().is_some_and(|most| waiting >= most) {
        return Err(Refusal::MaxWaiters);
    }
    let ticket = site.state(|state| state.next_ticket());
    let Some(client) = caller.block(site, ticket) else { return Ok(false) };
    let arrival = Arrival { ask: ask.to_owned(), client, client_id: caller.id(), since: now.micros, timeout };
    site.here(|state, at| state.join(at, ticket, arrival));
    let until = site.held().map_or(Deadline::At(now.start), |held| held.deadline);
    lease_moved(site, until, now);
    Ok(true)
}
