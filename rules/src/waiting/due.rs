//! Does the work that timers start: settles locks, tries to serve waiters for several locks, ends waits, and sends answers. One turn of the
//! event loop stops after 2 ms; the next turn goes on with the next kind of work.

use std::ops::{Bound, Range};

use super::budget::CHANGE;
use super::host::{Deferral, Host, Settled, TURN, WHILE_REFUSED, is_turn_over};
use super::lock_id::LockId;
use super::lock_state::LockState;
use super::queue::RequestId;
use super::tell::send_next;
use crate::lock::{Fence, Millis, Now};

const KINDS: u8 = 6;

/// Does the work that is due, as far as one turn allows. Returns how many waits have timed out.
pub fn run_due<H: Host>(host: &mut H, now: Now) -> u64 {
    let deferral = host.deferral(now);
    host.table().paused_until = if let Deferral::Until(then) = deferral { then } else { 0 };
    loop {
        let cleared = host.table().clear_up();
        if !cleared || host.used() >= TURN / 2 || host.table().budget.is_turn_over() {
            break;
        }
    }
    let (mut timeouts, mut answers, mut without) = (0, 0, 0);
    let mut kind = host.table().next_kind;
    loop {
        let done = match kind {
            0 => renew_next(host, deferral, now),
            1 => settle_next(host, deferral, Millis::MIN..0, now),
            2 => settle_next(host, deferral, 0..now.millis().saturating_add(1), now),
            3 => try_next(host, deferral, now),
            4 => {
                let ended = end_wait(host, deferral, now);
                timeouts += u64::from(ended == Some(true));
                ended.is_some()
            }
            _ => send_next(host, &mut answers, || now),
        };
        without = if done { 0 } else { without + 1 };
        kind = (kind + 1) % KINDS;
        if without == KINDS {
            kind = 0;
            break;
        }
        if done && is_turn_over(host) {
            break;
        }
    }
    host.table().next_kind = kind;
    timeouts
}

/// Settles the lock whose session is due first. This is a kind of work of its own, so that sessions go on however many leases end.
fn renew_next<H: Host>(host: &mut H, deferral: Deferral, now: Now) -> bool {
    let first = host.table().renewals.first().filter(|(time, _)| *time <= now.millis()).cloned();
    let Some((_, id)) = first.filter(|_| !matches!(deferral, Deferral::Until(_))) else { return false };
    settle_one(host, deferral, &id, now);
    true
}

/// Settles the lock that is due first in this range of times. Locks that are due at once (times below 0) and others take turns.
fn settle_next<H: Host>(host: &mut H, deferral: Deferral, due: Range<Millis>, now: Now) -> bool {
    if let Deferral::Until(_) = deferral {
        return false;
    }
    let first = host.table().wakes.range((due.start, LockId::first())..).next().cloned();
    let Some((_, id)) = first.filter(|(time, _)| *time < due.end) else { return false };
    settle_one(host, deferral, &id, now);
    true
}

fn settle_one<H: Host>(host: &mut H, deferral: Deferral, id: &LockId, now: Now) {
    let settled = match deferral {
        // On a replica, the module only drops what it knows of the lock.
        Deferral::Replica => Settled::Elsewhere,
        _ => {
            host.table().budget.begin_step();
            host.settle(None, std::slice::from_ref(id))
        }
    };
    let again = match settled {
        Settled::Done => return,
        Settled::Refused => Some(WHILE_REFUSED),
        // Only the server that has the key may grant it.
        Settled::Arriving if has_session(host, id) => return host.settle_arriving(id),
        Settled::Arriving | Settled::Elsewhere => host.table().send_away(id.to_ref()),
    };
    host.table().wake_by(id, again.map(|again| now.millis().saturating_add(again)));
}

/// Whether a connection keeps a grant of this lock alive.
fn has_session<H: Host>(host: &mut H, id: &LockId) -> bool {
    let fences: Vec<Fence> = {
        let table = host.table();
        let records = table.get(id.to_ref()).into_iter().flat_map(LockState::records);
        records.filter(|record| record.session.is_some()).map(|record| record.fence).collect()
    };
    fences.into_iter().any(|fence| host.alive_with(id, fence, Millis::MIN).is_some())
}

/// Tries to serve the next waiter for several locks. These waiters take turns.
fn try_next<H: Host>(host: &mut H, deferral: Deferral, now: Now) -> bool {
    if let Deferral::Until(_) = deferral {
        return false;
    }
    let request = {
        let table = host.table();
        let next = table.tries.range((Bound::Excluded(table.last_tried), Bound::Unbounded)).next();
        next.or(table.tries.first()).copied()
    };
    let Some(request) = request else { return false };
    try_one(host, deferral, request, now);
    true
}

fn try_one<H: Host>(host: &mut H, deferral: Deferral, request: RequestId, now: Now) {
    let ids: Vec<LockId> = {
        let mut table = host.table();
        table.tries.remove(&request);
        table.last_tried = if table.tries.is_empty() { RequestId::MIN } else { request };
        table.budget.begin_step();
        let locks = table.waiters.get(&request).into_iter().flat_map(|waiter| waiter.locks.all());
        locks.map(|lock| lock.id.clone()).collect()
    };
    if deferral == Deferral::None && host.settle(Some(request), &ids) != Settled::Done {
        // The server may have refused because of one lock only, so timers settle each lock by itself.
        let then = now.millis().saturating_add(WHILE_REFUSED);
        ids.iter().for_each(|id| host.table().wake_by(id, Some(then)));
    }
}

/// Ends the wait whose time was up first. Before that, does what is due at its locks, because the waiter may still get them.
fn end_wait<H: Host>(host: &mut H, deferral: Deferral, now: Now) -> Option<bool> {
    let first = host.table().timeouts.first().copied();
    let (_, request) = first.filter(|(time_up, _)| *time_up <= now.millis())?;
    let locks = host.table().waiters.get(&request)?.locks.clone();
    for lock in locks.all().iter().filter(|_| deferral == Deferral::None) {
        let wake = host.table().get(lock.id.to_ref()).and_then(|lock| lock.wake);
        if wake.is_some_and(|wake| wake <= now.millis()) {
            settle_one(host, deferral, &lock.id, now);
            if is_turn_over(host) {
                return Some(false);
            }
        }
    }
    let is_to_try = host.table().tries.contains(&request);
    if deferral == Deferral::None && is_to_try {
        try_one(host, deferral, request, now);
    }
    host.table().budget.spend(CHANGE);
    Some(host.table().time_out(request, now.millis()))
}
