//! Who can't have at once what it asks for waits, or is refused.

use super::detect::{self, Asker};
use super::leases::look_when_one_ends;
use super::site::{Around, Caller, Note, Refusal, Site, Sites};
use super::state::{Arrival, At, Channel, Confirm, State, Ticket, Way};
use crate::lock::{Ask, Fence, Millis, Now};

/// What a client does that can't have at once what it asks for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wait {
    /// How long it waits, in ms; 0: without limit; none: not at all.
    pub(crate) timeout: Option<Millis>,
    /// Where it is told, instead of being blocked; and hears what becomes of its grant.
    pub(crate) channel: Option<Channel>,
    /// It is told, instead of waiting, where the wait would never end.
    pub(crate) detect: bool,
    /// What replicas are to confirm before it is told of a grant.
    pub(crate) confirm: Option<Confirm>,
}

/// What comes of an acquire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome<G> {
    Granted(G),
    /// The client is blocked.
    Waits,
    /// It waits, and its connection is free.
    Queued,
    /// Others hold what it asks for.
    Taken,
}

/// Why not now.
#[derive(Debug)]
pub(super) struct No {
    /// What a client that does not wait is told; none: null.
    pub(super) refused: Option<Refusal>,
    /// The grant by which the owner holds the lock, where it is to have it with less room: it waits in front of the queue. None where
    /// the lock is not settled: another one that waits in front may be over.
    pub(super) upgrade: Option<Fence>,
    /// What is over of the lock has not all ended: it is looked at again at once.
    pub(super) unsettled: bool,
}

/// Puts the client into the queues of all these locks, or refuses it where it doesn't want to wait or can't. `nots`: which of them
/// it can't have now, by their numbers.
pub(super) fn wait<B: Sites, G>(
    sites: &mut B,
    caller: &mut impl Caller<B::One>,
    ask: &Ask<'_>,
    wait: &Wait,
    nots: &[(usize, No)],
    now: Now,
) -> Result<Outcome<G>, Refusal> {
    let stuck = nots.first().map_or(0, |(number, _)| *number);
    let waits = match wait.timeout {
        None => Ok(None),
        // Not in a transaction, nor in a script.
        Some(_) if wait.channel.is_none() && !caller.may_block() => Ok(None),
        Some(timeout) => may_upgrade(sites, nots)
            .and_then(|()| match wait.detect && nots.iter().all(|(_, no)| !no.unsettled) {
                true => may_end(sites, caller, ask, wait, now),
                false => Ok(()),
            })
            .and_then(|()| match &wait.channel {
                None => join(sites, caller, ask, wait, timeout, stuck, now),
                Some(channel) => take_place(sites, caller, ask, timeout, channel, stuck, now),
            }),
    };
    let refused = match waits {
        Ok(Some((waits, ticket))) => {
            look_again(sites, nots, ticket, now);
            return Ok(waits);
        }
        Ok(None) => nots.first().and_then(|(_, no)| no.refused.clone()),
        Err(refusal) => Some(refusal),
    };
    if let Some(site) = sites.lock(stuck) {
        site.note(Note::Refused);
    }
    refused.map_or(Ok(Outcome::Taken), Err)
}

/// What is to be done later for one who waits now.
fn look_again<B: Sites>(sites: &mut B, nots: &[(usize, No)], ticket: Ticket, now: Now) {
    for (number, no) in nots {
        let Some(site) = sites.lock(*number) else { continue };
        if no.unsettled {
            site.here(|state, at| state.look_through(at, 0));
        }
        if no.refused.is_some() {
            // There is room: it is looked at until the grace is over.
            site.here(|state, at| state.look_by(at, now.start.saturating_add(1)));
        }
        if let Some(fence) = no.upgrade {
            site.here(|state, at| state.upgrade_first(at, fence, ticket));
        }
    }
}

/// An owner that holds a lock, and is to have it with less room, waits in front of the queue. Two of them would wait for each other.
fn may_upgrade<B: Sites>(sites: &mut B, nots: &[(usize, No)]) -> Result<(), Refusal> {
    for (number, no) in nots {
        let (Some(fence), Some(site)) = (no.upgrade, sites.lock(*number)) else { continue };
        let other =
            |site: &mut B::One| site.here(|state, at| state.upgrader(at).is_some_and(|waits| waits != fence));
        if !site.idle() && other(site) {
            site.note(Note::Deadlocked);
            return Err(Refusal::Deadlock);
        }
    }
    Ok(())
}

/// Whether the wait could ever end.
fn may_end<B: Sites>(
    sites: &mut B,
    caller: &mut impl Caller<B::One>,
    ask: &Ask<'_>,
    wait: &Wait,
    now: Now,
) -> Result<(), Refusal> {
    let blocks = wait.channel.is_none();
    let place = known_place(sites, ask).filter(|_| !blocks).map(|(ticket, _)| ticket);
    let asker = Asker { ask, blocks, place };
    let Some(circle) = detect::circle(sites, caller, &asker, now) else { return Ok(()) };
    if let Some(site) = sites.lock(0) {
        site.note(Note::Deadlocked);
    }
    Err(Refusal::Circle(circle))
}

/// The place that the client asks for again, and the connection on which it asked last.
fn known_place<B: Sites>(sites: &mut B, ask: &Ask<'_>) -> Option<(Ticket, u64)> {
    if !ask.once {
        return None;
    }
    let owner = ask.owner.borrowed().into_owned();
    on_all(sites, |site, all| site.state(|state| state.place_for(all, B::SEVERAL, &owner))).flatten()
}

/// Blocks the client, which waits from now on; none where that can't be. If it isn't, nothing has been done.
fn join<B: Sites, G>(
    sites: &mut B,
    caller: &mut impl Caller<B::One>,
    ask: &Ask<'_>,
    wait: &Wait,
    timeout: Millis,
    stuck: usize,
    now: Now,
) -> Result<Option<(Outcome<G>, Ticket)>, Refusal> {
    may_join(sites, caller)?;
    let Some((ticket, client)) = block(sites, caller) else { return Ok(None) };
    let (ask, way, client_id) = (ask.to_owned(), Way::Blocked(client), caller.id());
    let arrival = Arrival { ask, way, client_id, since: now.micros, timeout, confirm: wait.confirm };
    enter(sites, ticket, arrival, stuck, now);
    Ok(Some((Outcome::Waits, ticket)))
}

/// Blocks the client; none where that can't be. Nothing has been done then.
pub(super) fn block<B: Sites>(
    sites: &mut B,
    caller: &mut impl Caller<B::One>,
) -> Option<(Ticket, <B::One as Around>::Client)> {
    let site = sites.lock(0)?;
    let ticket = site.state(|state| state.next_ticket());
    Some((ticket, caller.block(site, ticket)?))
}

/// Gives the client a place in the queues, or lets it keep the one that it has.
fn take_place<B: Sites, G>(
    sites: &mut B,
    caller: &mut impl Caller<B::One>,
    ask: &Ask<'_>,
    timeout: Millis,
    channel: &Channel,
    stuck: usize,
    now: Now,
) -> Result<Option<(Outcome<G>, Ticket)>, Refusal> {
    let client_id = caller.id();
    let mut ask = ask.to_owned();
    // Until it is claimed, a grant lasts no longer than that; and the claim says what is to keep it alive.
    (ask.lease, ask.session) = (ask.lease.min(caller.claim()), false);
    let place = known_place(sites, &ask);
    let is_new = place.is_none_or(|(_, earlier)| earlier != client_id);
    if is_new && let Some(most) = caller.max_places() {
        let new = on_all(sites, |_, all| all.iter().copied().map(At::weight).sum()).unwrap_or(0);
        may_hang(sites, client_id, new, most)?;
    }
    let ask_room = ask.room;
    let (way, since) = (Way::Notified(channel.clone()), now.micros);
    // The claim says what is to be confirmed.
    let arrival = Arrival { ask, way, client_id, since, timeout, confirm: None };
    let ticket = match place {
        Some((ticket, _)) => {
            let kept = |site: &mut B::One, all: &[At<'_>]| {
                site.state(|state| {
                    state.keep_place(ticket, arrival);
                    if !ask_room.is_exclusive() {
                        // It may fit now.
                        all.iter().for_each(|at| _ = state.look_by(*at, 0));
                    }
                });
            };
            on_all(sites, kept);
            ticket
        }
        None => {
            may_join(sites, caller)?;
            let Some(site) = sites.lock(0) else { return Ok(None) };
            let ticket = site.state(|state| state.next_ticket());
            enter(sites, ticket, arrival, stuck, now);
            ticket
        }
    };
    Ok(Some((Outcome::Queued, ticket)))
}

/// Whether the connection of a client that asks for `SESSION` may keep these locks alive.
pub(super) fn may_keep<B: Sites>(
    sites: &mut B,
    caller: &impl Caller<B::One>,
    ask: &Ask<'_>,
) -> Result<(), Refusal> {
    let Some(most) = caller.max_places().filter(|_| ask.session) else { return Ok(()) };
    let mut new = 0;
    for number in 0..sites.count() {
        let Some(site) = sites.lock(number) else { break };
        let fence = site.value().and_then(|value| value.grant_of(&ask.owner)).map(|grant| grant.fence());
        let kept = |state: &mut State<_>, at: At<'_>| state.session_client(at, fence?);
        if site.here(kept) != Some(caller.id()) {
            new += site.here(|_, at| at.weight());
        }
    }
    may_hang(sites, caller.id(), new, most)
}

/// Whether so many more locks may hang on a connection.
fn may_hang<B: Sites>(sites: &mut B, client: u64, new: usize, most: usize) -> Result<(), Refusal> {
    let Some(site) = sites.lock(0).filter(|_| new > 0) else { return Ok(()) };
    if site.state(|state| state.weight_of(client)).saturating_add(new) > most {
        return Err(Refusal::MaxPlaces);
    }
    Ok(())
}

fn may_join<B: Sites>(sites: &mut B, caller: &impl Caller<B::One>) -> Result<(), Refusal> {
    let Some(most) = caller.max_waiters() else { return Ok(()) };
    for number in 0..sites.count() {
        let waiting = sites.lock(number).map_or(0, |site| site.here(|state, at| state.waiters_of(at)));
        if waiting >= most {
            return Err(Refusal::MaxWaiters);
        }
    }
    Ok(())
}

/// Does something in the state that is about all these locks.
pub(super) fn on_all<B: Sites, R>(
    sites: &mut B,
    body: impl FnOnce(&mut B::One, &[At<'_>]) -> R,
) -> Option<R> {
    let names: Vec<_> = (0..sites.count())
        .filter_map(|number| {
            let site = sites.lock(number)?;
            Some((site.db(), site.key()))
        })
        .collect();
    let all: Vec<At<'_>> = names.iter().map(|(db, key)| At { db: *db, key: key.as_ref() }).collect();
    Some(body(sites.lock(0)?, &all))
}

/// Puts a waiter into the queues. `stuck`: the number of a lock that keeps it waiting.
fn enter<B: Sites>(
    sites: &mut B,
    ticket: Ticket,
    arrival: Arrival<<B::One as Around>::Client>,
    stuck: usize,
    now: Now,
) {
    if B::SEVERAL {
        on_all(sites, |site, all| site.state(|state| state.join_all(all, stuck, ticket, arrival)));
    } else if let Some(site) = sites.lock(0) {
        site.here(|state, at| state.join(at, ticket, arrival));
    }
    for number in 0..sites.count() {
        if let Some(site) = sites.lock(number) {
            look_when_one_ends(site, now);
        }
    }
}
