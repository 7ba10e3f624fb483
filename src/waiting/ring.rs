//! What is done when its time has come, not when somebody asks: leases that are over, sessions to be renewed, waiters whose
//! time is up, clients to be told.

use super::site::{Host, Rest, Settled};
use super::state::Place;
use crate::lock::{Millis, Now};

/// How long in ms to wait before trying again a handover that the server refused (too few replicas, a disk that
/// fails). Costs a call for each lock that is due.
const WHILE_REFUSED: Millis = 100;

/// Does all that is due by then, in that order: locks are settled, waits end, clients are told. How many waits ended.
pub(crate) fn ring<H: Host>(host: &mut H, now: Now) -> u64 {
    match host.rest(now) {
        Rest::No => settle_due(host, now.millis()),
        Rest::Replica => host.state(|state| state.stand_down()),
        Rest::Until(then) => host.state(|state| state.be_quiet_until(then)),
    }
    let timeouts = host.state(|state| state.time_out(now.micros));
    answer(host);
    timeouts
}

/// Has those told whose grant has been made, or whose wait has ended.
pub(crate) fn answer<H: Host>(host: &mut H) {
    for client in host.state(|state| state.take_answered()) {
        host.unblock(client);
    }
}

fn settle_due<H: Host>(host: &mut H, now: Millis) {
    let mut refused = Vec::new();
    for place in host.state(|state| state.take_due(now)) {
        let again = match host.settle(&place) {
            Settled::Done => false,
            Settled::Refused => true,
            Settled::Elsewhere => is_elsewhere(host, &place),
        };
        if again {
            refused.push(place);
        }
    }
    host.state(|state| {
        for place in refused {
            state.alarm_at(place.at(), now.saturating_add(WHILE_REFUSED));
        }
    });
}

/// No command finds the lock here; whether to look again. Its slot may be on its way to this server: then what `ASKING` has
/// taken is here already.
fn is_elsewhere<H: Host>(host: &mut H, place: &Place) -> bool {
    let session = host.state(|state| state.session(place.at()));
    let here =
        host.look(place).is_some_and(|(fence, _)| session.is_some_and(|session| session.fence == fence));
    if here {
        host.settle_arriving(place);
        return false;
    }
    host.state(|state| state.moved_away(place.at()))
}
