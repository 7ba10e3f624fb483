//! What is done when its time has come, not when somebody asks: leases that are over, sessions to be renewed, waiters whose
//! time is up, clients to be told.
//!
//! However much falls due at once, a turn of the server lasts no longer than `TURN`, and does no more than its budget; the rest goes on
//! in the next, in order. A command in between finds the truth, since it settles its own lock first.

use super::budget::{CHANGE, LOOK};
use super::departures::tell_place;
use super::site::{Host, Rest, Settled};
use super::state::{Lane, Left, Place, Tell, Ticket};
use crate::lock::{Micros, Millis, Now};

/// How long, in µs, one turn of ours may last: others wait meanwhile.
pub(super) const TURN: Micros = 2_000;

/// How many blocked clients are answered in one turn, at most. The server has the work with most of that afterwards: some 10 to
/// 20 µs each.
const ANSWERS: usize = 100;

/// So many kinds of work fall due.
const KINDS: u8 = 6;

/// How long in ms to wait before trying again a handover that the server refused (too few replicas, a disk that
/// fails). Costs a call for each lock that is due.
const WHILE_REFUSED: Millis = 100;

/// Does what is due by then, as far as one turn allows. How many waits ended.
///
/// What has closed, and what has been flushed, is seen to first: that is quickly done, and much follows from it. Then by turns a
/// session is renewed, a lock is looked at for another reason (at once, or since its time has come), one who waits for several is tried,
/// a wait ends, and somebody is told: each of them in order, and none held up by many of another. Where a turn stops before all of that
/// has been done, the next one goes on, at the kind whose turn it is. So however little a turn does, no more than one of each other kind
/// comes between two of the same.
pub(crate) fn run_due<H: Host>(host: &mut H, now: Now) -> u64 {
    let rest = host.rest(now);
    if let Rest::Until(then) = rest {
        host.state(|state| state.timers.pause_until(then));
    }
    while host.state(|state| state.clear_up()) {
        host.spend(LOOK);
        if host.used() >= TURN / 2 || host.is_turn_over() {
            break;
        }
    }
    let (mut timeouts, mut answers) = (0_u64, 0);
    let (mut kind, mut without) = (host.state(|state| state.timers.next_kind()), 0);
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
    host.state(|state| state.timers.go_on_with(kind));
    if rest == Rest::No {
        host.state(|state| state.timers.end_run(now.millis()));
    }
    timeouts
}

/// Has those told whose grant has been made, or whose wait has ended; and holders, what has become of their grants; as far as
/// one turn allows.
pub(crate) fn answer<H: Host>(host: &mut H) {
    let mut answers = 0;
    while answers < ANSWERS && answer_next(host, &mut answers) && !is_over(host) {}
}

/// Whether this turn has lasted, or done, as much as it may.
fn is_over<H: Host>(host: &mut H) -> bool {
    host.is_turn_over() || host.used() >= TURN
}

/// Tells the next one; whether there was one. A grant that nobody hears of is given up, and goes to the next.
fn answer_next<H: Host>(host: &mut H, answers: &mut usize) -> bool {
    let Some(tell) = host.state(|state| state.next_answer()) else { return false };
    host.spend(CHANGE);
    match tell {
        Tell::Client(client) => {
            *answers += 1;
            host.unblock(client);
        }
        Tell::Place(ticket) => tell_place(host, ticket),
        Tell::Message(message) => _ = host.publish(&message),
    }
    true
}

/// Ends the wait whose time was up first; as `State::time_out`.
fn end_next_wait<H: Host>(host: &mut H, rest: Rest, now: Now) -> Option<bool> {
    if rest == Rest::No {
        // The lock may be the waiter's by now, and only be kept from it by others that are due.
        while let Some(place) = host.state(|state| state.next_overdue_with_wait(now.millis())) {
            look(host, rest, Lane::Look, &place, now.millis());
            if is_over(host) {
                return Some(false);
            }
        }
        if let Some((ticket, places)) = host.state(|state| state.overdue_try(now.millis())) {
            try_one(host, ticket, &places, now.millis());
        }
    }
    let ended = host.state(|state| state.time_out(now.millis()))?;
    host.spend(CHANGE);
    Some(ended)
}

/// Tries the next one who waits for several locks, and may have them all now; whether there was one.
fn try_next<H: Host>(host: &mut H, rest: Rest, now: Millis) -> bool {
    if matches!(rest, Rest::Until(_)) {
        return false;
    }
    let Some((ticket, places)) = host.state(|state| state.next_try()) else { return false };
    // On a replica they are sent away.
    if rest == Rest::No {
        try_one(host, ticket, &places, now);
    }
    true
}

fn try_one<H: Host>(host: &mut H, ticket: Ticket, places: &[Place], now: Millis) {
    if host.settle_together(ticket, places) != Settled::Done {
        // What has become of its locks is seen by looking at each.
        host.state(|state| state.look_at_all(places, now.saturating_add(WHILE_REFUSED)));
    }
}

/// Looks at the lock that was due first for that; whether there was one.
fn look_at_next<H: Host>(host: &mut H, rest: Rest, lane: Lane, now: Millis) -> bool {
    if matches!(rest, Rest::Until(_)) {
        return false;
    }
    let Some(place) = host.state(|state| state.take_due(lane, now)) else { return false };
    look(host, rest, lane, &place, now);
    true
}

fn look<H: Host>(host: &mut H, rest: Rest, lane: Lane, place: &Place, now: Millis) {
    let again = match rest {
        // It is for the primary to do.
        Rest::Replica => (!host.state(|state| state.stand_down_at(place))).then_some(1),
        _ => settle(host, place),
    };
    host.state(|state| match again {
        Some(again) => {
            state.set_timer(lane, place.at(), now.saturating_add(again));
            // Who comes before that finds more that is due than its timers tell.
            state.leave_for_next(place.at());
        }
        None => state.put_off(lane, place.at(), now),
    });
}

/// Settles a lock; where that could not be done, in how many ms to try again.
fn settle<H: Host>(host: &mut H, place: &Place) -> Option<Millis> {
    match host.settle(place) {
        Settled::Done => None,
        Settled::Refused => Some(WHILE_REFUSED),
        Settled::Arriving => settle_arriving(host, place),
        Settled::Elsewhere => moved_away(host, place),
    }
}

/// The lock is another server's now; in how many ms to look again.
fn moved_away<H: Host>(host: &mut H, place: &Place) -> Option<Millis> {
    match host.state(|state| state.moved_away(place.at())) {
        Left::Nobody => None,
        Left::Blocked => Some(WHILE_REFUSED),
        Left::More => Some(1),
    }
}

/// Does what is due for a grant that a connection keeps alive here; in how many ms to look again for another reason.
fn settle_arriving<H: Host>(host: &mut H, place: &Place) -> Option<Millis> {
    // Looking may find the lease to be over, and the session to outlive that.
    let sessions = host.state(|state| state.fences_of_sessions(place.at()));
    let alive = sessions.into_iter().any(|fence| host.look(place, fence, Millis::MIN).is_some());
    if alive || host.state(|state| state.has_lapsed(place.at())) {
        host.settle_arriving(place);
        return None;
    }
    moved_away(host, place)
}
