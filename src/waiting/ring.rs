//! What is done when its time has come, not when somebody asks: leases that are over, sessions to be renewed, waiters whose
//! time is up, clients to be told.

use super::departures::tell_place;
use super::site::{Host, Rest, Settled};
use super::state::{Place, Tell};
use crate::lock::{Millis, Now};

/// How long in ms to wait before trying again a handover that the server refused (too few replicas, a disk that
/// fails). Costs a call for each lock that is due.
const WHILE_REFUSED: Millis = 100;

/// How many grants in a row that nobody hears of are handed on in one turn of the server.
const UNHEARD: usize = 64;

/// Does all that is due by then, in that order: locks are settled, waits end, clients are told. How many waits ended.
pub(crate) fn ring<H: Host>(host: &mut H, now: Now) -> u64 {
    let mut timeouts = 0;
    for _ in 0..UNHEARD {
        match host.rest(now) {
            Rest::No => settle_due(host, now.millis()),
            Rest::Replica => host.state(|state| state.stand_down()),
            Rest::Until(then) => host.state(|state| state.be_quiet_until(then)),
        }
        timeouts += host.state(|state| state.time_out(now.micros));
        if !answer(host) {
            break;
        }
    }
    timeouts
}

/// Has those told whose grant has been made, or whose wait has ended; and holders, what has become of their grants. Whether a
/// grant has been given up, since nobody heard of it.
pub(crate) fn answer<H: Host>(host: &mut H) -> bool {
    let mut unheard = false;
    for tell in host.state(|state| state.take_answered()) {
        match tell {
            Tell::Client(client) => host.unblock(client),
            Tell::Place(ticket) => unheard |= tell_place(host, ticket),
            Tell::Message(message) => _ = host.publish(&message),
        }
    }
    unheard
}

fn settle_due<H: Host>(host: &mut H, now: Millis) {
    let mut refused = Vec::new();
    for place in host.state(|state| state.take_due(now)) {
        let again = match host.settle(&place) {
            Settled::Done => false,
            Settled::Refused => true,
            Settled::Arriving => settle_arriving(host, &place),
            Settled::Elsewhere => host.state(|state| state.moved_away(place.at())),
        };
        if again {
            refused.push(place);
        }
    }
    host.state(|state| {
        for place in refused {
            state.alarm_at(place.at(), now.saturating_add(WHILE_REFUSED));
        }
        state.rang(now);
    });
}

/// Does what is due for a grant that a connection keeps alive here; whether to look again for another reason.
fn settle_arriving<H: Host>(host: &mut H, place: &Place) -> bool {
    // Looking may find the lease to be over, and the session to outlive that.
    let held = host.look(place).map(|(fence, _)| fence);
    let (session, due) = host.state(|state| (state.session(place.at()), state.due(place.at())));
    if due.lapsed || session.is_some_and(|session| Some(session.fence) == held) {
        host.settle_arriving(place);
        return false;
    }
    host.state(|state| state.moved_away(place.at()))
}
