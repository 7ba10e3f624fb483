//! The work that is done when its time has come, not when somebody asks: leases that are over, sessions to be renewed, waiters whose
//! time is up, clients to be told.
//!
//! However much falls due at once, a turn of the server lasts no longer than `TURN`, and does no more than its budget; the rest goes on
//! in the next, in order. A command in between finds the truth, since it settles its own lock first.

use super::access::{Deferral, Host, Settled};
use super::budget::{CHANGE, LOOK};
use super::departures::tell_place;
use super::table::{AT_A_TIME, Lane, LockId, Outgoing, RequestId};
use crate::lock::{Micros, Millis, Now};

/// How long, in µs, one turn of ours may last: others wait meanwhile.
pub(super) const TURN: Micros = 2_000;

/// The most blocked clients that are answered in one turn. Each costs the server another 10 to 20 µs after that.
const ANSWERS: usize = 100;

/// The number of kinds of work that fall due.
const KINDS: u8 = 6;

/// How long in ms to wait before trying again a handover that the server refused (too few replicas, a disk that
/// fails). Costs a call for each lock that is due.
const WHILE_REFUSED: Millis = 100;

/// Does what is due by then, as far as one turn allows. How many waits ended.
///
/// Connections that have closed and databases that were flushed come first: that is quickly done, and much follows from it. Then by turns a
/// session is renewed, a lock is looked at for another reason (at once, or since its time has come), one who waits for several is tried,
/// a wait ends, and somebody is told: each of them in order, and none held up by many of another. Where a turn stops before all of that
/// has been done, the next one goes on, at the kind whose turn it is. So however little a turn does, no more than one of each other kind
/// comes between two of one kind.
pub(crate) fn run_due<H: Host>(host: &mut H, now: Now) -> u64 {
    let rest = host.rest(now);
    if let Deferral::Until(then) = rest {
        host.table(|table| table.locks.timers.paused_until = then);
    }
    loop {
        let work = host.table(|table| table.clear_up());
        host.spend(LOOK.saturating_mul(work as u32));
        if work == 0 || host.used() >= TURN / 2 || host.is_turn_over() {
            break;
        }
    }
    let (mut timeouts, mut answers) = (0_u64, 0);
    let (mut kind, mut without) = (host.table(|table| table.locks.timers.next_kind), 0);
    loop {
        let done = match kind {
            0 => look_at_next(host, rest, Lane::Renewal, now.millis()),
            1 => look_at_next(host, rest, Lane::Now, now.millis()),
            2 => look_at_next(host, rest, Lane::Look, now.millis()),
            3 => try_next(host, rest, now.millis()),
            4 => {
                let ended = end_next_wait(host, rest, now);
                timeouts += u64::from(ended == Some(true));
                ended.is_some()
            }
            _ => answers < ANSWERS && answer_next(host, &mut answers),
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
    if rest == Deferral::None {
        host.table(|table| table.locks.timers.end_run(now.millis()));
    }
    timeouts
}

/// Tells waiters of their grants, or that their waits have ended, and holders what has become of their grants, as far as one turn allows.
pub(crate) fn answer<H: Host>(host: &mut H) {
    let mut answers = 0;
    while answers < ANSWERS && answer_next(host, &mut answers) && !is_over(host) {}
}

/// Whether this turn has lasted, or done, as much as it may.
fn is_over<H: Host>(host: &mut H) -> bool {
    host.is_turn_over() || host.used() >= TURN
}

/// Sends the next answer or message. Whether there was one. A grant that nobody hears of is given up, and goes to the next waiter.
fn answer_next<H: Host>(host: &mut H, answers: &mut usize) -> bool {
    let Some(tell) = host.table(|table| table.next_answer()) else { return false };
    host.spend(CHANGE);
    match tell {
        Outgoing::Client(client) => {
            *answers += 1;
            host.unblock(client);
        }
        Outgoing::Place(request) => tell_place(host, request),
        Outgoing::Message(message) => _ = host.publish(&message),
    }
    true
}

/// Ends the wait whose time was up first; as `WaitTable::time_out`.
fn end_next_wait<H: Host>(host: &mut H, rest: Deferral, now: Now) -> Option<bool> {
    if rest == Deferral::None {
        // The lock may be the waiter's by now, and only be kept from it by others that are due.
        while let Some(id) = host.table(|table| table.next_overdue_with_wait(now.millis())) {
            look(host, rest, Lane::Look, &id, now.millis());
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

/// Tries the next one who waits for several locks, and may have them all now; whether there was one.
fn try_next<H: Host>(host: &mut H, rest: Deferral, now: Millis) -> bool {
    if matches!(rest, Deferral::Until(_)) {
        return false;
    }
    let Some((request, ids)) = host.table(|table| table.waiters.next_try()) else { return false };
    // On a replica they are sent away.
    if rest == Deferral::None {
        try_one(host, request, &ids, now);
    }
    true
}

fn try_one<H: Host>(host: &mut H, request: RequestId, ids: &[LockId], now: Millis) {
    if host.settle(Some(request), ids) != Settled::Done {
        // Looking at each of its locks shows what has become of them.
        let then = now.saturating_add(WHILE_REFUSED);
        host.table(|table| ids.iter().for_each(|id| _ = table.locks.look_by(id.to_ref(), then)));
    }
}

/// Looks at the lock that was due first in this lane. Whether there was one.
fn look_at_next<H: Host>(host: &mut H, rest: Deferral, lane: Lane, now: Millis) -> bool {
    if matches!(rest, Deferral::Until(_)) {
        return false;
    }
    let Some(id) = host.table(|table| table.locks.take_due(lane, now)) else { return false };
    look(host, rest, lane, &id, now);
    true
}

fn look<H: Host>(host: &mut H, rest: Deferral, lane: Lane, id: &LockId, now: Millis) {
    let again = match rest {
        // It is for the primary to do.
        Deferral::Replica => {
            let sent_away = host.table(|table| table.demoted_at(id));
            host.spend(LOOK.saturating_mul(sent_away as u32));
            (sent_away == AT_A_TIME).then_some(1)
        }
        _ => settle(host, id),
    };
    host.table(|table| match again {
        Some(again) => {
            table.locks.set_timer(lane, id.to_ref(), now.saturating_add(again));
            // A command that arrives earlier must recheck the lock: more may be due than its timers say.
            table.locks.change(id.to_ref(), |entry| entry.recheck_next());
        }
        None => table.locks.put_off(lane, id.to_ref(), now),
    });
}

/// Settles a lock. Returns in how many ms to try again, if it could not be settled.
fn settle<H: Host>(host: &mut H, id: &LockId) -> Option<Millis> {
    match host.settle(None, std::slice::from_ref(id)) {
        Settled::Done => None,
        Settled::Refused => Some(WHILE_REFUSED),
        Settled::Arriving => settle_arriving(host, id),
        Settled::Elsewhere => moved_away(host, id),
    }
}

/// The lock is another server's now. Returns in how many ms to look again, if waiters are left.
fn moved_away<H: Host>(host: &mut H, id: &LockId) -> Option<Millis> {
    let (sent_away, left) = host.table(|table| {
        let sent_away = table.send_away(id.to_ref());
        (sent_away, table.locks.lock(id.to_ref()).waiters())
    });
    host.spend(LOOK.saturating_mul(sent_away as u32));
    match left {
        _ if sent_away == AT_A_TIME => Some(1),
        0 => None,
        // The server sends blocked clients away when the move is done.
        _ => Some(WHILE_REFUSED),
    }
}

/// Does what is due for a grant that a connection keeps alive here. Returns in how many ms to look again, if something else is left.
fn settle_arriving<H: Host>(host: &mut H, id: &LockId) -> Option<Millis> {
    // Looking may find the lease to be over, and the session to outlive that.
    let sessions = host.table(|table| table.locks.lock(id.to_ref()).session_fences());
    let alive = sessions.into_iter().any(|fence| host.look(id, fence, Millis::MIN).is_some());
    if alive || host.table(|table| table.locks.lock(id.to_ref()).has_expired()) {
        host.settle_arriving(id);
        return None;
    }
    moved_away(host, id)
}
