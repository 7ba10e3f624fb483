//! An acquire: granted, re-entered, refused, or put into the queue.

use super::alarms::{lease_moved, look_when_one_ends};
use super::hand_over::give;
use super::sessions;
use super::settle::settle;
use super::site::{Caller, Note, Refusal, Site};
use super::state::{Arrival, Channel, Way};
use crate::lock::{self, Acquired, Ask, Deadline, Fence, Millis, Now, Room};

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
    let (held, others) = site.seen_by(&ask.owner);
    let mine = held.map(|held| (held.grant.fence(), held.grant.room()));
    let (fence, holds, until) = match (lock::acquire(held, others, ask, limits, now.start)?, mine) {
        (Acquired::Reentered { holds, deadline }, Some((fence, room))) => {
            enter_again(site, ask, fence, holds, room, deadline);
            (fence, holds, deadline)
        }
        (Acquired::Upgraded { holds, deadline }, Some((fence, _))) => {
            // What others have been granted elsewhere may be lost.
            if let grace @ 1.. = site.grace().grants {
                return wait_to_upgrade(site, caller, ask, fence, wait, now, Err(Refusal::Grace(grace)));
            }
            enter_again(site, ask, fence, holds, ask.room, deadline);
            site.note(Note::Upgraded);
            (fence, holds, deadline)
        }
        (Acquired::UpgradeRefused, Some((fence, _))) => {
            return wait_to_upgrade(site, caller, ask, fence, wait, now, Ok(Outcome::Taken));
        }
        (Acquired::Granted { deadline }, _) => {
            // In a grace, nobody is granted what there is room for; waiters queue up for its end.
            if let Err(refused) = may_grant(site) {
                return wait_or(site, caller, ask, wait, now, refused);
            }
            let fence = site.next_fence(now).ok_or(Refusal::NoMoreFences)?;
            give(site, ask, fence, deadline, others.count == 0, now);
            site.note(Note::Acquired);
            (fence, 1, deadline)
        }
        _ => return wait_or(site, caller, ask, wait, now, Ok(Outcome::Taken)),
    };
    if let Some(channel) = &wait.channel {
        let owner = ask.owner.borrowed().into_owned();
        site.here(|state, at| state.watch(at, fence, owner, channel.clone()));
        lease_moved(site, fence, until, now);
    }
    if ask.session {
        sessions::start(site, caller.id(), fence, ask.lease, until, now);
    }
    Ok(Outcome::Granted { fence, holds, until })
}

/// The holder has its grant once more.
fn enter_again<S: Site>(
    site: &mut S,
    ask: &Ask<'_>,
    fence: Fence,
    holds: u32,
    room: Room,
    deadline: Deadline,
) {
    site.update(fence, holds, room, deadline);
    if ask.once && !site.idle() {
        site.here(|state, at| state.share_hold(at, fence));
    }
    site.note(Note::Reentered);
}

/// Whether what there is room for may be granted to a client that comes now; else what it is refused with. Not before those who
/// wait, for whom a grace may have ended only just now.
#[inline(always)]
fn may_grant<S: Site>(site: &mut S) -> Result<(), Result<Outcome, Refusal>> {
    let grace = site.grace().grants;
    match grace {
        0 if site.idle() || site.here(|state, at| state.waiters_of(at)) == 0 => Ok(()),
        0 if site.value().is_some() => Err(Ok(Outcome::Taken)),
        left => Err(Err(Refusal::Grace(left.max(1)))),
    }
}

/// The same as `wait_or` for an owner that holds the lock, and is to have it with less room: it waits in front of the queue. Two of
/// them would wait for each other.
fn wait_to_upgrade<S: Site>(
    site: &mut S,
    caller: &mut impl Caller<S>,
    ask: &Ask<'_>,
    fence: Fence,
    wait: &Wait,
    now: Now,
    refused: Result<Outcome, Refusal>,
) -> Result<Outcome, Refusal> {
    let other = |site: &mut S| site.here(|state, at| state.upgrader(at).is_some_and(|waits| waits != fence));
    if wait.timeout.is_some() && !site.idle() && other(site) {
        site.note(Note::Refused);
        site.note(Note::Deadlocked);
        return Err(Refusal::Deadlock);
    }
    let outcome = wait_or(site, caller, ask, wait, now, refused);
    if matches!(outcome, Ok(Outcome::Waits | Outcome::Queued)) {
        let owner = ask.owner.borrowed().into_owned();
        site.here(|state, at| state.upgrade_first(at, fence, &owner));
    }
    outcome
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
        if refused.is_err() {
            // There is room: it is looked at until the grace is over.
            site.here(|state, at| state.alarm_at(at, now.start.saturating_add(1)));
        }
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
    look_when_one_ends(site);
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
    let ask_room = ask.room;
    let arrival = Arrival { ask, way: Way::Notified(channel.clone()), client_id, since: now.micros, timeout };
    match place {
        Some((ticket, _)) => site.here(|state, at| {
            state.keep_place(ticket, arrival);
            if !ask_room.is_exclusive() {
                // It may fit now.
                state.alarm_at(at, 0);
            }
        }),
        None => {
            may_join(site, caller)?;
            let ticket = site.state(|state| state.next_ticket());
            site.here(|state, at| state.join(at, ticket, arrival));
            look_when_one_ends(site);
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
