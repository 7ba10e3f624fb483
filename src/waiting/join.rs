//! A client that can't have at once what it asks for waits, or is refused.

use super::access::{Caller, Environment, LockAccess, LockEvent, LocksAccess, Refusal};
use super::detect::{self, Asker};
use super::leases::look_when_one_ends;
use super::table::{Arrival, Channel, Confirm, LockRef, RequestId, WaitKind, WaitTable};
use crate::lock::{AcquireRequest, Fence, Millis, Now};

/// How a client waits if it can't have at once what it asks for.
#[derive(Clone, Debug, Default)]
pub(crate) struct WaitOptions {
    /// How long it waits, in ms; 0: without limit; none: not at all.
    pub(crate) timeout: Option<Millis>,
    /// Where it is told, instead of being blocked; and hears what becomes of its grant.
    pub(crate) channel: Option<Channel>,
    /// It is told, instead of waiting, where the wait would never end.
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
    /// It waits, and its connection is free.
    Queued,
    /// Others hold what it asks for.
    Taken,
}

/// Why not now.
#[derive(Debug)]
pub(super) struct Conflict {
    /// The error for a client that does not wait; none: the answer is null.
    pub(super) refused: Option<Refusal>,
    /// The grant by which the owner holds the lock, where it is to have it with less room: it waits in front of the queue. None where
    /// the lock is not settled: another one that waits in front may be over.
    pub(super) upgrade: Option<Fence>,
    /// Some of the grants that are over have not been ended yet: the lock is looked at again at once.
    pub(super) unsettled: bool,
}

/// Puts the client into the queues of all these locks, or refuses it where it doesn't want to wait or can't. `conflicts`: which of them
/// it can't have now, by their numbers.
pub(super) fn wait<B: LocksAccess, G>(
    locks: &mut B,
    caller: &mut impl Caller<B::One>,
    ask: &AcquireRequest<'_>,
    wait: &WaitOptions,
    conflicts: &[(usize, Conflict)],
    now: Now,
) -> Result<Outcome<G>, Refusal> {
    let stuck = conflicts.first().map_or(0, |(number, _)| *number);
    let waits = match wait.timeout {
        None => Ok(None),
        // Not in a transaction, nor in a script.
        Some(_) if wait.channel.is_none() && !caller.may_block() => Ok(None),
        Some(timeout) => may_upgrade(locks, conflicts)
            .and_then(|()| match wait.detect && conflicts.iter().all(|(_, conflict)| !conflict.unsettled) {
                true => may_end(locks, caller, ask, wait, now),
                false => Ok(()),
            })
            .and_then(|()| match &wait.channel {
                None => join(locks, caller, ask, wait, timeout, stuck, now),
                Some(channel) => take_place(locks, caller, ask, timeout, channel, stuck, now),
            }),
    };
    let refused = match waits {
        Ok(Some((waits, request))) => {
            look_again(locks, conflicts, request, now);
            return Ok(waits);
        }
        Ok(None) => conflicts.first().and_then(|(_, conflict)| conflict.refused.clone()),
        Err(refusal) => Some(refusal),
    };
    if let Some(lock) = locks.lock(stuck) {
        lock.note(LockEvent::Refused);
    }
    refused.map_or(Ok(Outcome::Taken), Err)
}

/// Notes what is to be done later for a client that waits now.
fn look_again<B: LocksAccess>(locks: &mut B, conflicts: &[(usize, Conflict)], request: RequestId, now: Now) {
    for (number, conflict) in conflicts {
        let Some(lock) = locks.lock(*number) else { continue };
        if conflict.unsettled {
            lock.here(|table, at| table.locks.recheck_by(at, 0));
        }
        if conflict.refused.is_some() {
            // There is room: it is looked at until the grace is over.
            lock.here(|table, at| table.locks.look_by(at, now.start.saturating_add(1)));
        }
        if let Some(fence) = conflict.upgrade {
            lock.change(|entry| entry.upgrade_first(fence, request));
        }
    }
}

/// An owner that holds a lock, and is to have it with less room, waits in front of the queue. Two of them would wait for each other.
fn may_upgrade<B: LocksAccess>(locks: &mut B, conflicts: &[(usize, Conflict)]) -> Result<(), Refusal> {
    for (number, conflict) in conflicts {
        let (Some(fence), Some(lock)) = (conflict.upgrade, locks.lock(*number)) else { continue };
        let other =
            |lock: &mut B::One| lock.entry(|entry| entry.upgrader().is_some_and(|waits| waits != fence));
        if !lock.idle() && other(lock) {
            lock.note(LockEvent::Deadlocked);
            return Err(Refusal::Deadlock);
        }
    }
    Ok(())
}

/// Whether the wait could ever end.
fn may_end<B: LocksAccess>(
    locks: &mut B,
    caller: &mut impl Caller<B::One>,
    ask: &AcquireRequest<'_>,
    wait: &WaitOptions,
    now: Now,
) -> Result<(), Refusal> {
    let blocks = wait.channel.is_none();
    let place = known_place(locks, ask).filter(|_| !blocks).map(|(request, _)| request);
    let asker = Asker { ask, blocks, place };
    let Some(circle) = detect::circle(locks, caller, &asker, now) else { return Ok(()) };
    if let Some(lock) = locks.lock(0) {
        lock.note(LockEvent::Deadlocked);
    }
    Err(Refusal::Circle(circle))
}

/// The place that the client asks for again, and the connection on which it asked last.
fn known_place<B: LocksAccess>(locks: &mut B, ask: &AcquireRequest<'_>) -> Option<(RequestId, u64)> {
    if !ask.once {
        return None;
    }
    let owner = ask.owner.borrowed().into_owned();
    on_all(locks, |lock, all| lock.table(|table| table.waiters.place_for(all, B::SEVERAL, &owner))).flatten()
}

/// Blocks the client, which waits from now on; none where that can't be. If it isn't, nothing has been done.
fn join<B: LocksAccess, G>(
    locks: &mut B,
    caller: &mut impl Caller<B::One>,
    ask: &AcquireRequest<'_>,
    wait: &WaitOptions,
    timeout: Millis,
    stuck: usize,
    now: Now,
) -> Result<Option<(Outcome<G>, RequestId)>, Refusal> {
    may_join(locks, caller)?;
    let Some((request, client)) = block(locks, caller) else { return Ok(None) };
    let (ask, way, client_id) = (ask.to_owned(), WaitKind::Blocked(client), caller.id());
    let arrival = Arrival { ask, way, client_id, since: now.micros, timeout, confirm: wait.confirm };
    enter(locks, request, arrival, stuck, now);
    Ok(Some((Outcome::Waits, request)))
}

/// Blocks the client; none where that can't be. Nothing has been done then.
pub(super) fn block<B: LocksAccess>(
    locks: &mut B,
    caller: &mut impl Caller<B::One>,
) -> Option<(RequestId, <B::One as Environment>::Client)> {
    let lock = locks.lock(0)?;
    let request = lock.table(|table| table.waiters.next_request());
    Some((request, caller.block(lock, request)?))
}

/// Gives the client a place in the queues, or lets it keep the one that it has.
fn take_place<B: LocksAccess, G>(
    locks: &mut B,
    caller: &mut impl Caller<B::One>,
    ask: &AcquireRequest<'_>,
    timeout: Millis,
    channel: &Channel,
    stuck: usize,
    now: Now,
) -> Result<Option<(Outcome<G>, RequestId)>, Refusal> {
    let client_id = caller.id();
    let mut ask = ask.to_owned();
    // Until it is claimed, a grant lasts no longer than that; and the claim says what is to keep it alive.
    (ask.lease, ask.session) = (ask.lease.min(caller.claim()), false);
    let place = known_place(locks, &ask);
    let is_new = place.is_none_or(|(_, earlier)| earlier != client_id);
    if is_new && let Some(most) = caller.max_places() {
        let new = on_all(locks, |_, all| all.iter().copied().map(LockRef::weight).sum()).unwrap_or(0);
        may_hang(locks, client_id, new, most)?;
    }
    let ask_room = ask.room;
    let (way, since) = (WaitKind::Notified(channel.clone()), now.micros);
    // The claim says what is to be confirmed.
    let arrival = Arrival { ask, way, client_id, since, timeout, confirm: None };
    let request = match place {
        Some((request, _)) => {
            let kept = |lock: &mut B::One, all: &[LockRef<'_>]| {
                lock.table(|table| {
                    table.keep_place(request, arrival);
                    if !ask_room.is_exclusive() {
                        // It may fit now.
                        all.iter().for_each(|at| _ = table.locks.look_by(*at, 0));
                    }
                });
            };
            on_all(locks, kept);
            request
        }
        None => {
            may_join(locks, caller)?;
            let Some(lock) = locks.lock(0) else { return Ok(None) };
            let request = lock.table(|table| table.waiters.next_request());
            enter(locks, request, arrival, stuck, now);
            request
        }
    };
    Ok(Some((Outcome::Queued, request)))
}

/// Whether the connection of a client that asks for `SESSION` may keep these locks alive.
pub(super) fn may_keep<B: LocksAccess>(
    locks: &mut B,
    caller: &impl Caller<B::One>,
    ask: &AcquireRequest<'_>,
) -> Result<(), Refusal> {
    let Some(most) = caller.max_places().filter(|_| ask.session) else { return Ok(()) };
    let mut new = 0;
    for number in 0..locks.count() {
        let Some(lock) = locks.lock(number) else { break };
        let fence = lock.value().and_then(|value| value.grant_of(&ask.owner)).map(|grant| grant.fence());
        let kept = |table: &mut WaitTable<_>, at: LockRef<'_>| table.view().session_client(at, fence?);
        if lock.here(kept) != Some(caller.id()) {
            new += lock.here(|_, at| at.weight());
        }
    }
    may_hang(locks, caller.id(), new, most)
}

/// Whether so many more locks may hang on a connection.
fn may_hang<B: LocksAccess>(locks: &mut B, client: u64, new: usize, most: usize) -> Result<(), Refusal> {
    let Some(lock) = locks.lock(0).filter(|_| new > 0) else { return Ok(()) };
    if lock.table(|table| table.connections.weight_of(client)).saturating_add(new) > most {
        return Err(Refusal::MaxPlaces);
    }
    Ok(())
}

fn may_join<B: LocksAccess>(locks: &mut B, caller: &impl Caller<B::One>) -> Result<(), Refusal> {
    let Some(most) = caller.max_waiters() else { return Ok(()) };
    for number in 0..locks.count() {
        let waiting = locks.lock(number).map_or(0, |lock| lock.entry(|entry| entry.waiters()));
        if waiting >= most {
            return Err(Refusal::MaxWaiters);
        }
    }
    Ok(())
}

/// Does something in the state that is about all these locks.
pub(super) fn on_all<B: LocksAccess, R>(
    locks: &mut B,
    body: impl FnOnce(&mut B::One, &[LockRef<'_>]) -> R,
) -> Option<R> {
    let names: Vec<_> = (0..locks.count())
        .filter_map(|number| {
            let lock = locks.lock(number)?;
            Some((lock.db(), lock.key()))
        })
        .collect();
    let all: Vec<LockRef<'_>> =
        names.iter().map(|(db, key)| LockRef { db: *db, key: key.as_ref() }).collect();
    Some(body(locks.lock(0)?, &all))
}

/// Puts a waiter into the queues. `stuck`: the number of a lock that keeps it waiting.
fn enter<B: LocksAccess>(
    locks: &mut B,
    request: RequestId,
    arrival: Arrival<<B::One as Environment>::Client>,
    stuck: usize,
    now: Now,
) {
    on_all(locks, |lock, all| lock.table(|table| table.join(all, B::SEVERAL, stuck, request, arrival)));
    for number in 0..locks.count() {
        if let Some(lock) = locks.lock(number) {
            look_when_one_ends(lock, now);
        }
    }
}
