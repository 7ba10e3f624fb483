//! Does the work that timers start, and not commands: ends lapsed grants, renews sessions, ends waits whose time is up, and answers
//! clients.
//!
//! However much work falls due at once, one turn of the event loop stops after about `TURN` µs, or when the budget of the turn is used up.
//! The next turns do the rest, in order. A command in between sees the true state of its locks, because it settles these locks first.

use super::access::{Deferral, Host, Settled};
use super::budget::{Budget, CHANGE, LOOKUP};
use super::departures::tell_place;
use super::table::{AT_A_TIME, Lane, LockId, Outgoing, RequestId};
use crate::lock::{Micros, Millis, Now};

/// How long the work of one turn may last, in µs. The server serves no client meanwhile.
pub(super) const TURN: Micros = 2_000;

/// The most blocked clients that one turn answers. Each answer costs the server another 10 to 20 µs afterwards.
const ANSWERS: usize = 100;

/// The number of kinds of due work.
const KINDS: u8 = 6;

/// If the server refuses the command that settles a lock (too few replicas, a disk that fails), the module tries again after this many ms.
/// Each try costs a call for each lock that is due.
const WHILE_REFUSED: Millis = 100;

/// Does the work that is due by `now`, as far as one turn allows. Returns the number of waits that have timed out.
///
/// The module handles closed connections and flushed databases first, because this is quick, and causes other work. Then six kinds of work
/// alternate: renewing a session, settling a lock (bringing it up to date) whose timer was set for at once, settling a lock whose timer was
/// set for a time that has come, trying to serve a waiter for several locks, ending a wait whose time is up, and sending an answer. Within
/// each kind, what fell due first is done first. If a turn stops early, the next turn begins with the next kind. So between two pieces of
/// work of one kind, there is at most one piece of each other kind.
pub fn run_due<H: Host>(host: &mut H, now: Now) -> u64 {
    let deferral = host.deferral(now);
    if let Deferral::Until(then) = deferral {
        host.table(|table| table.locks.timers.paused_until = then);
    }
    loop {
        let work = host.table(|table| table.clear_up());
        host.spend(LOOKUP.saturating_mul(work as u32));
        if work == 0 || host.used() >= TURN / 2 || host.budget(|budget| budget.is_turn_over()) {
            break;
        }
    }
    let (mut timeouts, mut answers) = (0_u64, 0);
    let (mut kind, mut without) = (host.table(|table| table.locks.timers.next_kind), 0);
    loop {
        let done = match kind {
            0 => look_at_next(host, deferral, Lane::Renewal, now.millis()),
            1 => look_at_next(host, deferral, Lane::Now, now.millis()),
            2 => look_at_next(host, deferral, Lane::Look, now.millis()),
            3 => try_next(host, deferral, now.millis()),
            4 => {
                let ended = end_next_wait(host, deferral, now);
                timeouts += u64::from(ended == Some(true));
                ended.is_some()
            }
            _ => answers < ANSWERS && send_next(host, &mut answers, || now),
        };
        without = if done { 0 } else { without + 1 };
        kind = (kind + 1) % KINDS;
        if without == KINDS {
            kind = 0;
            break;
        }
        if done && is_over(host) {
            break;
        }
    }
    host.table(|table| table.locks.timers.next_kind = kind);
    if deferral == Deferral::None {
        host.table(|table| table.locks.timers.end_run(now.millis()));
    }
    timeouts
}

/// Sends the answers to waiters, and the messages to holders, as far as one turn allows.
pub fn send_due<H: Host>(host: &mut H, now: impl Fn() -> Now) {
    let mut answers = 0;
    while answers < ANSWERS && send_next(host, &mut answers, &now) && !is_over(host) {}
}

/// Whether this turn has used up its time or its budget.
fn is_over<H: Host>(host: &mut H) -> bool {
    host.budget(|budget| budget.is_turn_over()) || host.used() >= TURN
}

/// Sends the next answer or message. Returns whether there was one. If nobody receives the message about a grant, the lock goes to the next
/// waiter.
fn send_next<H: Host>(host: &mut H, answers: &mut usize, now: impl Fn() -> Now) -> bool {
    let Some(tell) = host.table(|table| table.next_answer()) else { return false };
    host.spend(CHANGE);
    match tell {
        Outgoing::Client(client) => {
            *answers += 1;
            host.unblock(client);
        }
        Outgoing::Place(request) => tell_place(host, request, now()),
        Outgoing::Message(message) => _ = host.publish(&message),
    }
    true
}

/// Ends the wait whose time was up first. Returns whether the wait timed out; `None` if no wait's time is up.
fn end_next_wait<H: Host>(host: &mut H, deferral: Deferral, now: Now) -> Option<bool> {
    if deferral == Deferral::None {
        // The waiter whose time is up might still get its locks by work that is due at them. So this work is done before the waiter is told
        // that its time is up.
        while let Some(id) = host.table(|table| table.next_overdue_with_wait(now.millis())) {
            look(host, deferral, Lane::Look, &id, now.millis());
            if is_over(host) {
                return Some(false);
            }
        }
        if let Some((request, ids)) = host.table(|table| table.waiters.overdue_try(now.millis())) {
            try_one(host, request, &ids, now.millis());
        }
    }
    let now = now.millis();
    let ended = host.table(|table| table.with_timed_out(now, |table| table.time_out(now)))?;
    host.spend(CHANGE);
    Some(ended)
}

/// Tries to serve the next waiter for several locks that can perhaps have all of them now. Returns whether there was such a waiter.
fn try_next<H: Host>(host: &mut H, deferral: Deferral, now: Millis) -> bool {
    if matches!(deferral, Deferral::Until(_)) {
        return false;
    }
    let Some((request, ids)) = host.table(|table| table.waiters.next_try()) else { return false };
    // On a replica, waiters are sent away instead of being served.
    if deferral == Deferral::None {
        try_one(host, request, &ids, now);
    }
    true
}

fn try_one<H: Host>(host: &mut H, request: RequestId, ids: &[LockId], now: Millis) {
    host.budget(Budget::begin_step);
    if host.settle(Some(request), ids) != Settled::Done {
        // One lock may be the reason why the server did not run the command for all of them. So timers settle each lock separately, later.
        let then = now.saturating_add(WHILE_REFUSED);
        host.table(|table| ids.iter().for_each(|id| _ = table.locks.look_by(id.to_ref(), then)));
    }
}

/// Settles the lock whose timer in this lane (the timers of one kind) was due first. Returns whether any lock was due.
fn look_at_next<H: Host>(host: &mut H, deferral: Deferral, lane: Lane, now: Millis) -> bool {
    if matches!(deferral, Deferral::Until(_)) {
        return false;
    }
    let Some(id) = host.table(|table| table.locks.take_due(lane, now)) else { return false };
    look(host, deferral, lane, &id, now);
    true
}

fn look<H: Host>(host: &mut H, deferral: Deferral, lane: Lane, id: &LockId, now: Millis) {
    let again = match deferral {
        // On a replica, the module only drops what it knows of the lock, because the primary does the work.
        Deferral::Replica => {
            let sent_away = host.table(|table| table.demoted_at(id));
            host.spend(LOOKUP.saturating_mul(sent_away as u32));
            (sent_away == AT_A_TIME).then_some(1)
        }
        _ => settle_by_command(host, id),
    };
    host.table(|table| match again {
        Some(again) => {
            table.locks.set_timer(lane, id.to_ref(), now.saturating_add(again));
            // The work at the lock is still due, but the lock's timer is now set to a later time. So a command that comes before this time
            // must not rely on the timers, and has to compare the lock's entry in the table with the lock's key.
            table.locks.change(id.to_ref(), |entry| entry.recheck_next());
        }
        None => table.locks.put_off(lane, id.to_ref(), now),
    });
}

/// Settles a lock (brings its grants and its queue up to date) by a command. Returns in how many ms the module has to try again; `None` if
/// the lock was settled, or needs nothing more.
fn settle_by_command<H: Host>(host: &mut H, id: &LockId) -> Option<Millis> {
    host.budget(Budget::begin_step);
    match host.settle(None, std::slice::from_ref(id)) {
        Settled::Done => None,
        Settled::Refused => Some(WHILE_REFUSED),
        Settled::Arriving => settle_arriving(host, id),
        Settled::Elsewhere => moved_away(host, id),
    }
}

/// Sends waiters away from a lock that now belongs to another server. If waiters are left, returns in how many ms to look at the lock
/// again.
fn moved_away<H: Host>(host: &mut H, id: &LockId) -> Option<Millis> {
    let (sent_away, left) = host.table(|table| {
        let sent_away = table.send_away(id.to_ref());
        (sent_away, table.locks.lock(id.to_ref()).waiters())
    });
    host.spend(LOOKUP.saturating_mul(sent_away as u32));
    match left {
        _ if sent_away == AT_A_TIME => Some(1),
        0 => None,
        // The waiters that are left are blocked clients. The server itself sends them away when the hash slot has moved.
        _ => Some(WHILE_REFUSED),
    }
}

/// Settles a lock whose hash slot is moving to this server, if a connection here keeps a grant of the lock alive. Otherwise the lock counts
/// as moved away. If waiters are left, returns in how many ms to look at the lock again.
fn settle_arriving<H: Host>(host: &mut H, id: &LockId) -> Option<Millis> {
    // `alive_with` deletes a key whose lease has ended. If the session of a grant outlives this deletion, the table keeps the grant (see
    // `sessions::outlives`), so `has_expired` is checked afterwards.
    let sessions = host.table(|table| table.locks.lock(id.to_ref()).session_fences());
    let alive = sessions.into_iter().any(|fence| host.alive_with(id, fence, Millis::MIN).is_some());
    if alive || host.table(|table| table.locks.lock(id.to_ref()).has_expired()) {
        host.settle_arriving(id);
        return None;
    }
    moved_away(host, id)
}
