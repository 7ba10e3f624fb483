//! A client that can't have at once what it asks for waits, or is refused.

use super::access::{Caller, Environment, LockAccess, LockEvent, Refusal};
use super::detect;
use super::leases::look_when_one_ends;
use super::lock_set::LocksAccess;
use super::table::{Arrival, Channel, Confirm, LockRef, RequestId, WaitKind, WaitTable};
use super::verdict::{Conflict, Verdict};
use crate::lock::{AcquireRequest, Millis, Now};

/// How a client waits if it can't have at once what it asks for.
#[derive(Clone, Debug, Default)]
pub(crate) struct WaitOptions {
    /// How long it waits, in ms; 0: without limit; none: not at all.
    pub(crate) timeout: Option<Millis>,
    /// The channel on which the client is told, instead of being blocked, and hears what becomes of its grant.
    pub(crate) channel: Option<Channel>,
    /// The client is refused if its wait would never end.
    pub(crate) detect: bool,
    /// How many replicas have to confirm a grant before the client is told of it.
    pub(crate) confirm: Option<Confirm>,
}

/// The result of an acquire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome<G> {
    Granted(G),
    /// The client is blocked.
    Waits,
    /// The client has a place in the queue, and its connection is free.
    Queued,
    /// Others hold what it asks for.
    Taken,
}

/// A client that has been blocked, and the number of its request.
pub(super) type Blocked<B> = (RequestId, <<B as LocksAccess>::One as Environment>::Client);

/// The locks that can't be granted now, by their numbers, and why.
fn conflicts(verdicts: &[Verdict]) -> impl Iterator<Item = (usize, &Conflict)> {
    verdicts.iter().enumerate().filter_map(|(number, verdict)| Some((number, verdict.as_ref().err()?)))
}

/// Puts the client into the queues of all these locks, or refuses it where it doesn't want to wait or can't.
pub(super) fn wait<B: LocksAccess, G>(
    locks: &mut B,
    caller: &mut impl Caller<B::One>,
    ask: &AcquireRequest<'_>,
    wait: &WaitOptions,
    verdicts: &[Verdict],
    now: Now,
) -> Result<Outcome<G>, Refusal> {
    let first = conflicts(verdicts).next();
    let stuck = first.map_or(0, |(number, _)| number);
    let refused = match may_wait(locks, caller, ask, wait, verdicts, now).and_then(|timeout| {
        timeout.map_or(Ok(None), |timeout| join(locks, caller, ask, wait, timeout, stuck, now))
    }) {
        Ok(Some(request)) => {
            look_later(locks, verdicts, request, now);
            return Ok(if wait.channel.is_some() { Outcome::Queued } else { Outcome::Waits });
        }
        Ok(None) => first.and_then(|(_, conflict)| conflict.grace).map(Refusal::Grace),
        Err(refusal) => Some(refusal),
    };
    locks.lock(stuck).note(LockEvent::Refused);
    refused.map_or(Ok(Outcome::Taken), Err)
}

/// How long the client may wait; `None` if it doesn't want to wait, or can't be blocked.
fn may_wait<B: LocksAccess>(
    locks: &mut B,
    caller: &mut impl Caller<B::One>,
    ask: &AcquireRequest<'_>,
    wait: &WaitOptions,
    verdicts: &[Verdict],
    now: Now,
) -> Result<Option<Millis>, Refusal> {
    // Not in a transaction, nor in a script.
    let timeout = wait.timeout.filter(|_| wait.channel.is_some() || caller.may_block());
    if timeout.is_some() {
        may_upgrade(locks, verdicts)?;
        if wait.detect && conflicts(verdicts).all(|(_, conflict)| !conflict.unsettled) {
            may_end(locks, caller, ask, wait, now)?;
        }
    }
    Ok(timeout)
}

/// Notes what is to be done later for a client that waits now.
fn look_later<B: LocksAccess>(locks: &mut B, verdicts: &[Verdict], request: RequestId, now: Now) {
    for (number, conflict) in conflicts(verdicts) {
        let lock = locks.lock(number);
        if conflict.unsettled {
            lock.here(|table, at| table.locks.recheck_by(at, 0));
        }
        if conflict.grace.is_some() {
            // There is room: it is looked at until the grace is over.
            lock.here(|table, at| table.locks.look_by(at, now.start.saturating_add(1)));
        }
        if let Some(fence) = conflict.upgrade {
            lock.change(|entry| entry.upgrade_first(fence, request));
        }
    }
}

/// An owner that holds a lock, and is to have it with less room, waits in front of the queue. Two of them would wait for each other.
fn may_upgrade<B: LocksAccess>(locks: &mut B, verdicts: &[Verdict]) -> Result<(), Refusal> {
    for (number, conflict) in conflicts(verdicts) {
        let (Some(fence), lock) = (conflict.upgrade, locks.lock(number)) else { continue };
        if !lock.idle() && lock.entry(|entry| entry.upgrader().is_some_and(|other| other != fence)) {
            lock.note(LockEvent::Deadlocked);
            return Err(Refusal::Deadlock);
        }
    }
    Ok(())
}

/// Refuses a wait that could never end.
fn may_end<B: LocksAccess>(
    locks: &mut B,
    caller: &mut impl Caller<B::One>,
    ask: &AcquireRequest<'_>,
    wait: &WaitOptions,
    now: Now,
) -> Result<(), Refusal> {
    let blocks = wait.channel.is_none();
    let place = known_place(locks, ask).filter(|_| !blocks).map(|(request, _)| request);
    let Some(circle) = detect::circle(locks, caller, ask, blocks, place, now) else { return Ok(()) };
    locks.first().note(LockEvent::Deadlocked);
    Err(Refusal::Circle(circle))
}

/// The place that the client asks for again, and the connection on which it asked last.
fn known_place<B: LocksAccess>(locks: &mut B, ask: &AcquireRequest<'_>) -> Option<(RequestId, u64)> {
    if !ask.once {
        return None;
    }
    let owner = ask.owner.borrowed().into_owned();
    locks.here_all(|table, all| table.waiters.place_for(all, B::SEVERAL, &owner))
}

/// Has the client wait from now on, blocked or in a place: its request. None where it can't be blocked; nothing has been done then.
fn join<B: LocksAccess>(
    locks: &mut B,
    caller: &mut impl Caller<B::One>,
    ask: &AcquireRequest<'_>,
    wait: &WaitOptions,
    timeout: Millis,
    stuck: usize,
    now: Now,
) -> Result<Option<RequestId>, Refusal> {
    let (client_id, since, confirm) = (caller.id(), now.micros, wait.confirm);
    let Some(channel) = &wait.channel else {
        may_join(locks, caller)?;
        let Some((request, client)) = block(locks, caller) else { return Ok(None) };
        let (ask, way) = (ask.to_owned(), WaitKind::Blocked(client));
        enter(locks, request, Arrival { ask, way, client_id, since, timeout, confirm }, stuck, now);
        return Ok(Some(request));
    };
    let (mut ask, limits) = (ask.to_owned(), caller.limits());
    // Until it is claimed, a grant lasts no longer than that; and the claim says what is to keep it alive, and to be confirmed.
    (ask.lease, ask.session) = (ask.lease.min(limits.claim), false);
    let place = known_place(locks, &ask);
    if place.is_none_or(|(_, earlier)| earlier != client_id)
        && let Some(most) = limits.places
    {
        let new = locks.here_all(|_, all| all.iter().copied().map(LockRef::weight).sum());
        may_hang(locks, client_id, new, most)?;
    }
    let (is_shared, way) = (!ask.room.is_exclusive(), WaitKind::Notified(channel.clone()));
    let arrival = Arrival { ask, way, client_id, since, timeout, confirm: None };
    if let Some((request, _)) = place {
        locks.here_all(|table, all| {
            table.keep_place(request, arrival);
            if is_shared {
                // It may fit now.
                all.iter().for_each(|at| _ = table.locks.look_by(*at, 0));
            }
        });
        return Ok(Some(request));
    }
    may_join(locks, caller)?;
    let request = locks.first().table(|table| table.waiters.next_request());
    enter(locks, request, arrival, stuck, now);
    Ok(Some(request))
}

/// Blocks the client; none where that can't be. Nothing has been done then.
pub(super) fn block<B: LocksAccess>(locks: &mut B, caller: &mut impl Caller<B::One>) -> Option<Blocked<B>> {
    let lock = locks.first();
    let request = lock.table(|table| table.waiters.next_request());
    Some((request, caller.block(lock, request)?))
}

/// Refuses a `SESSION` whose connection would keep too many locks alive with these.
pub(super) fn may_keep<B: LocksAccess>(
    locks: &mut B,
    caller: &impl Caller<B::One>,
    ask: &AcquireRequest<'_>,
) -> Result<(), Refusal> {
    let Some(most) = caller.limits().places else { return Ok(()) };
    let mut new = 0;
    locks.each(|lock| {
        let fence = lock.value().and_then(|value| value.grant_of(&ask.owner)).map(|grant| grant.fence());
        let kept = |table: &mut WaitTable<_>, at: LockRef<'_>| table.session_client(at, fence?);
        if lock.here(kept) != Some(caller.id()) {
            new += lock.here(|_, at| at.weight());
        }
    });
    may_hang(locks, caller.id(), new, most)
}

/// Refuses so many more locks where too many would hang on the connection.
fn may_hang<B: LocksAccess>(locks: &mut B, client: u64, new: usize, most: usize) -> Result<(), Refusal> {
    let hang = |table: &mut WaitTable<_>| table.connections.weight_of(client).saturating_add(new);
    if new > 0 && locks.first().table(hang) > most { Err(Refusal::MaxPlaces) } else { Ok(()) }
}

fn may_join<B: LocksAccess>(locks: &mut B, caller: &impl Caller<B::One>) -> Result<(), Refusal> {
    let Some(most) = caller.limits().waiters else { return Ok(()) };
    let may_join = |lock: &mut B::One| match lock.entry(|entry| entry.waiters()) < most {
        true => Ok(()),
        false => Err(Refusal::MaxWaiters),
    };
    locks.try_each(may_join).map(|_| ())
}

/// Puts a waiter into the queues. `stuck`: the number of a lock that keeps it waiting.
fn enter<B: LocksAccess>(
    locks: &mut B,
    request: RequestId,
    arrival: Arrival<<B::One as Environment>::Client>,
    stuck: usize,
    now: Now,
) {
    locks.here_all(|table, all| table.join(all, B::SEVERAL, stuck, request, arrival));
    locks.each(|lock| look_when_one_ends(lock, now));
}
