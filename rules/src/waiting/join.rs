//! Makes a client wait if it can't have its locks at once, or refuses the client.

use super::access::{Caller, Environment, LockAccess, LockEvent, Refusal};
use super::detect;
use super::lapse::look_when_one_ends;
use super::lock_set::LocksAccess;
use super::table::{Arrival, Channel, Confirm, LockRef, RequestId, WaitKind, WaitTable};
use super::verdict::{Conflict, Verdict};
use crate::lock::{AcquireRequest, Millis, Now};

/// How a client waits if it can't have the lock at once.
#[derive(Clone, Debug, Default)]
pub struct WaitOptions {
    /// How long the client waits, in ms; 0: without limit; `None`: the client does not wait.
    pub timeout: Option<Millis>,
    /// The channel for messages to the client, if the client asks with `NOTIFY`. Such a client is not blocked, and a message tells it of
    /// its grant.
    pub channel: Option<Channel>,
    /// Whether the client is to be refused if its wait would never end (`DETECT`).
    pub detect: bool,
    /// How many replicas have to confirm a grant before the client is told of the grant, and in what time (`SYNC`).
    pub confirm: Option<Confirm>,
}

/// The result of an acquire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome<G> {
    Granted(G),
    /// The client is blocked.
    Waits,
    /// The client has a place in the queue (`NOTIFY`), and its connection is not blocked.
    Queued,
    /// The request can't be granted now, and the client does not want to wait, or can't be blocked.
    Taken,
}

/// The request of a blocked client, and its handle.
pub(super) type BlockedRequest<B> = (RequestId, <<B as LocksAccess>::One as Environment>::Client);

/// Returns the verdicts that do not grant their lock, each with the number of this lock.
fn conflicts(verdicts: &[Verdict]) -> impl Iterator<Item = (usize, &Conflict)> {
    verdicts.iter().enumerate().filter_map(|(number, verdict)| Some((number, verdict.as_ref().err()?)))
}

/// Puts the client into the queues of all locks, or refuses the client if it does not want to wait or can't wait.
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
            set_timers(locks, verdicts, request, now);
            return Ok(if wait.channel.is_some() { Outcome::Queued } else { Outcome::Waits });
        }
        Ok(None) => first.and_then(|(_, conflict)| conflict.grace).map(Refusal::Grace),
        Err(refusal) => Some(refusal),
    };
    locks.lock(stuck).note(LockEvent::Refused);
    refused.map_or(Ok(Outcome::Taken), Err)
}

/// Returns how long the client is to wait, in ms (0: without limit); `None` if the client does not want to wait, or can't be blocked.
/// Returns an error if it turns out that the wait would never end.
fn may_wait<B: LocksAccess>(
    locks: &mut B,
    caller: &mut impl Caller<B::One>,
    ask: &AcquireRequest<'_>,
    wait: &WaitOptions,
    verdicts: &[Verdict],
    now: Now,
) -> Result<Option<Millis>, Refusal> {
    // A client in a transaction can't be blocked, but can get a place: a position in the queue that does not block the connection.
    let timeout = wait.timeout.filter(|_| wait.channel.is_some() || caller.may_block());
    if timeout.is_some() {
        refuse_upgrade(locks, verdicts)?;
        if wait.detect && conflicts(verdicts).all(|(_, conflict)| !conflict.unsettled) {
            refuse_cycle(locks, caller, ask, wait, now)?;
        }
    }
    Ok(timeout)
}

/// Sets the timers that look again at the locks of a client that has just begun to wait.
fn set_timers<B: LocksAccess>(locks: &mut B, verdicts: &[Verdict], request: RequestId, now: Now) {
    for (number, conflict) in conflicts(verdicts) {
        let lock = locks.lock(number);
        if conflict.unsettled {
            lock.here(|table, at| table.locks.recheck_by(at, 0));
        }
        if conflict.grace.is_some() {
            // The client's request fits, but has to wait because of a grace. So timers try to serve the client until the grace is over.
            lock.here(|table, at| table.locks.look_by(at, now.start.saturating_add(1)));
        }
        if let Some(fence) = conflict.upgrade {
            lock.change(|entry| entry.upgrade_first(fence, request));
        }
    }
}

/// Refuses a request for an upgrade (a re-entry that allows fewer other holders) if another owner already waits for an upgrade of the same
/// lock: the two owners would wait for each other.
fn refuse_upgrade<B: LocksAccess>(locks: &mut B, verdicts: &[Verdict]) -> Result<(), Refusal> {
    for (number, conflict) in conflicts(verdicts) {
        let (Some(fence), lock) = (conflict.upgrade, locks.lock(number)) else { continue };
        if !lock.idle() && lock.entry(|entry| entry.upgrader().is_some_and(|other| other != fence)) {
            lock.note(LockEvent::Deadlocked);
            return Err(Refusal::Deadlock);
        }
    }
    Ok(())
}

/// With `DETECT`, refuses a wait that would never end.
fn refuse_cycle<B: LocksAccess>(
    locks: &mut B,
    caller: &mut impl Caller<B::One>,
    ask: &AcquireRequest<'_>,
    wait: &WaitOptions,
    now: Now,
) -> Result<(), Refusal> {
    let blocks = wait.channel.is_none();
    let place = known_place(locks, ask).filter(|_| !blocks).map(|(request, _)| request);
    let Some(cycle) = detect::cycle(locks, caller, ask, blocks, place, now) else { return Ok(()) };
    locks.first().note(LockEvent::Deadlocked);
    Err(Refusal::Cycle(cycle))
}

/// Returns the place (a position in the queues, `NOTIFY`) that the owner already has for these locks, and the connection on which the owner
/// last asked for this place. Returns `None` if there is no place, or the request is without `ONCE`.
fn known_place<B: LocksAccess>(locks: &mut B, ask: &AcquireRequest<'_>) -> Option<(RequestId, u64)> {
    if !ask.once {
        return None;
    }
    let owner = ask.owner.borrowed().into_owned();
    locks.here_all(|table, all| table.waiters.place_for(all, B::SEVERAL, &owner))
}

/// Makes the client wait, blocked or with a place (a position in the queue that does not block the connection). Returns the request. If the
/// client can't be blocked, does nothing and returns `None`.
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
        check_queue(locks, caller)?;
        let Some((request, client)) = block(locks, caller) else { return Ok(None) };
        let (ask, way) = (ask.to_owned(), WaitKind::Blocked(client));
        enter(locks, request, Arrival { ask, way, client_id, since, timeout, confirm }, stuck, now);
        return Ok(Some(request));
    };
    let (mut ask, limits) = (ask.to_owned(), caller.limits());
    // Until the owner claims a place's grant, by another acquire or an extension, the grant's lease is at most `limits.claim` ms. Only the
    // claim says whether the grant gets a session, and whether replicas have to confirm the grant.
    (ask.lease, ask.session) = (ask.lease.min(limits.claim), false);
    let place = known_place(locks, &ask);
    if place.is_none_or(|(_, earlier)| earlier != client_id)
        && let Some(most) = limits.places
    {
        let new = locks.here_all(|_, all| all.iter().copied().map(LockRef::weight).sum());
        check_places(locks, client_id, new, most)?;
    }
    let (is_shared, way) = (!ask.room.is_exclusive(), WaitKind::Notified(channel.clone()));
    let arrival = Arrival { ask, way, client_id, since, timeout, confirm: None };
    if let Some((request, _)) = place {
        locks.here_all(|table, all| {
            table.keep_place(request, arrival);
            if is_shared {
                // The owner's new request may allow more holders than its earlier request, and so may fit beside the present holders. So a
                // timer tries at once to serve the place.
                all.iter().for_each(|at| _ = table.locks.look_by(*at, 0));
            }
        });
        return Ok(Some(request));
    }
    check_queue(locks, caller)?;
    let request = locks.first().table(|table| table.waiters.next_request());
    enter(locks, request, arrival, stuck, now);
    Ok(Some(request))
}

/// Blocks the client under the number of a new request. Returns `None`, and does nothing, if the client can't be blocked.
pub(super) fn block<B: LocksAccess>(
    locks: &mut B,
    caller: &mut impl Caller<B::One>,
) -> Option<BlockedRequest<B>> {
    let lock = locks.first();
    let request = lock.table(|table| table.waiters.next_request());
    Some((request, caller.block(lock, request)?))
}

/// Refuses a request with `SESSION` if too many locks would depend on its connection.
pub(super) fn check_sessions<B: LocksAccess>(
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
    check_places(locks, caller.id(), new, most)
}

/// Refuses a place or a session if more than `most` locks would depend on the connection. `new` is the weight of the new locks (see
/// `LockRef::weight`).
fn check_places<B: LocksAccess>(locks: &mut B, client: u64, new: usize, most: usize) -> Result<(), Refusal> {
    let hang = |table: &mut WaitTable<_>| table.connections.weight_of(client).saturating_add(new);
    if new > 0 && locks.first().table(hang) > most { Err(Refusal::MaxPlaces) } else { Ok(()) }
}

fn check_queue<B: LocksAccess>(locks: &mut B, caller: &impl Caller<B::One>) -> Result<(), Refusal> {
    let Some(most) = caller.limits().waiters else { return Ok(()) };
    let may_join = |lock: &mut B::One| match lock.entry(|entry| entry.waiters()) < most {
        true => Ok(()),
        false => Err(Refusal::MaxWaiters),
    };
    locks.try_each(may_join).map(|_| ())
}

/// Puts a waiter into the queues of all its locks. `stuck` is the number of a lock that the waiter can't have yet.
fn enter<B: LocksAccess>(
    locks: &mut B,
    request: RequestId,
    arrival: Arrival<<B::One as Environment>::Client>,
    stuck: usize,
    now: Now,
) {
    // If others already wait for a lock, its timer is already set, because this step has settled the lock (brought it up to date), and
    // settling sets the timer.
    let is_known = locks.each(|lock| !lock.idle() && lock.entry(|entry| entry.waiters() > 0));
    locks.here_all(|table, all| table.join(all, B::SEVERAL, stuck, request, arrival));
    locks.with(&is_known, |lock, is_known| {
        if !is_known {
            look_when_one_ends(lock, now);
        }
    });
}
