//! An acquire: granted, re-entered, refused, or put into the queue.

use super::alarms::lease_moved;
use super::sessions;
use super::settle::settle;
use super::site::{Caller, Note, Refusal, Site};
use super::state::{Arrival, Channel, Way};
use crate::lock::{self, Acquired, Ask, Deadline, Fence, Grant, Millis, Now};

/// What comes of an acquire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Granted {
        fence: Fence,
        holds: u32,
        until: Deadline,
    },
    /// The client is blocked.
    Waits,
    /// It waits, and its connection is free.
    Queued,
    /// The lock is somebody else's.
    Taken,
}

/// What a client does that can't have the lock at once.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wait {
    /// How long it waits, in ms; 0: without limit; none: not at all.
    pub(crate) timeout: Option<Millis>,
    /// Where it is told, instead of being blocked; and hears what becomes of its grant.
    pub(crate) channel: Option<Channel>,
}

pub(crate) fn acquire<S: Site>(
    site: &mut S,
    caller: &mut impl Caller<S>,
    ask: &Ask<'_>,
    wait: &Wait,
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
                return wait_or(site, caller, ask, wait, now, Err(grace));
            }
            let fence = site.next_fence(now).ok_or(Refusal::NoMoreFences)?;
            let owner = ask.owner.borrowed();
            site.give(Grant::new(owner, fence, 1, ask.max_hold, now.millis()), deadline);
            site.note(Note::Acquired);
            (fence, 1, deadline)
        }
        _ => return wait_or(site, caller, ask, wait, now, Ok(Outcome::Taken)),
    };
    if let Some(channel) = &wait.channel {
        let owner = ask.owner.borrowed().into_owned();
        site.here(|state, at| state.watch(at, fence, owner, channel.clone()));
        lease_moved(site, until, now);
    }
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
    wait: &Wait,
    now: Now,
    refused: Result<Outcome, Refusal>,
) -> Result<Outcome, Refusal> {
    let waits = match (wait.timeout, &wait.channel) {
        (None, _) => Ok(None),
        (Some(timeout), None) => join(site, caller, ask, timeout, now),
        (Some(timeout), Some(channel)) => take_place(site, caller, ask, timeout, channel, now),
    };
    if let Ok(Some(waits)) = waits {
        return Ok(waits);
    }
    site.note(Note::Refused);
    waits.and(refused)
}

/// Blocks the client; none where that can't be. If it isn't, nothing has been done.
fn join<S: Site>(
    site: &mut S,
    caller: &mut impl Caller<S>,
    ask: &Ask<'_>,
    timeout: Millis,
    now: Now,
) -> Result<Option<Outcome>, Refusal> {
    if !caller.may_block() {
        return Ok(None);
    }
    may_join(site, caller)?;
    let ticket = site.state(|state| state.next_ticket());
    let Some(client) = caller.block(site, ticket) else { return Ok(None) };
    let way = Way::Blocked(client);
    let arrival = Arrival { ask: ask.to_owned(), way, client_id: caller.id(), since: now.micros, timeout };
    site.here(|state, at| state.join(at, ticket, arrival));
    look_when_it_ends(site, now);
    Ok(Some(Outcome::Waits))
}

/// Gives the client a place in the queue, or lets it keep the one that it has.
fn take_place<S: Site>(
    site: &mut S,
    caller: &mut impl Caller<S>,
    ask: &Ask<'_>,
    timeout: Millis,
    channel: &Channel,
    now: Now,
) -> Result<Option<Outcome>, Refusal> {
    let client_id = caller.id();
    let mut ask = ask.to_owned();
    // Until it is claimed, a grant lasts no longer than that; and the claim says what is to keep it alive.
    (ask.lease, ask.session) = (ask.lease.min(caller.claim()), false);
    let place = match ask.once {
        true => site.here(|state, at| state.place_in_queue(at, &ask.owner)),
        false => None,
    };
    let is_new = place.is_none_or(|(_, earlier)| earlier != client_id);
    if is_new
        && caller.max_places().is_some_and(|most| site.state(|state| state.places_of(client_id)) >= most)
    {
        return Err(Refusal::MaxPlaces);
    }
    let arrival = Arrival { ask, way: Way::Notified(channel.clone()), client_id, since: now.micros, timeout };
    match place {
        Some((ticket, _)) => site.state(|state| state.keep_place(ticket, arrival)),
        None => {
            may_join(site, caller)?;
            let ticket = site.state(|state| state.next_ticket());
            site.here(|state, at| state.join(at, ticket, arrival));
            look_when_it_ends(site, now);
        }
    }
    Ok(Some(Outcome::Queued))
}

fn may_join<S: Site>(site: &mut S, caller: &impl Caller<S>) -> Result<(), Refusal> {
    let waiting = site.here(|state, at| state.waiters_of(at));
    if caller.max_waiters().is_some_and(|most| waiting >= most) {
        return Err(Refusal::MaxWaiters);
    }
    Ok(())
}

/// Somebody waits for the end of the lease from now on.
fn look_when_it_ends<S: Site>(site: &mut S, now: Now) {
    let until = site.held().map_or(Deadline::At(now.start), |held| held.deadline);
    lease_moved(site, until, now);
}
