//! Waiters are told, and waiters go away.

use super::sessions;
use super::site::{Around, Host};
use super::state::{Answer, Message, Moved, Stand, Ticket, Told, Word};
use crate::lock::Now;

/// What a waiter is told whom the server lets us answer now. `None`: it has been told already.
pub(crate) fn tell<H: Host>(host: &mut H, ticket: Ticket, now: Now) -> Option<Told> {
    let told = host.state(|state| state.tell(ticket))?;
    if let Answer::Granted { until: confirmed } = told.answer
        && told.ask.session
    {
        let lease = host.limits().allowed(told.ask.lease);
        for (place, fence) in &told.binds {
            let (fence, client) = (*fence, told.client_id);
            if let Some(until) = host.look(place, fence, now.millis()) {
                host.state(|state| {
                    sessions::bind(state, place.at(), client, fence, lease, until, now.millis());
                    state.confirm_session(place.at(), fence, told.confirm);
                    if confirmed < until {
                        // Somebody has made the lease longer since; or, of several locks, it is another one that ends first.
                        let moved = Moved { from: confirmed, to: until };
                        state.await_renewal(place.at(), fence, moved, now.millis());
                    }
                });
            } else if told.confirm.is_none() {
                sessions::bind_overdue(host, place.at(), client, fence, lease, now);
            }
        }
    }
    Some(told)
}

/// Tells a waiter that is notified. A grant that nobody hears of is taken back; else it is to be claimed.
pub(super) fn tell_place<H: Host>(host: &mut H, ticket: Ticket) {
    let Some(told) = host.state(|state| state.tell(ticket)) else { return };
    let Told { stands, ask, answer, channel: Some(channel), .. } = told else { return };
    let word = match answer {
        // Of several grants, the new ones have the latest fence.
        Answer::Granted { .. } => match stands.all().iter().filter_map(Stand::fence).max() {
            Some(fence) => Word::Granted(fence),
            None => Word::Gone,
        },
        Answer::TimedOut => Word::Timeout,
        _ => Word::Gone,
    };
    let heard = host.publish(&Message { channel, word, owner: ask.owner });
    let granted = matches!(word, Word::Granted(_));
    match (granted, heard) {
        (true, true) => {}
        (true, false) => _ = host.state(|state| state.give_up(ticket)),
        (false, _) => host.state(|state| state.forget(ticket)),
    }
}

/// The server is done with a waiter. `gone` tells that it was before it came to this: the connection closed, or an operator
/// sent it away. Then what it was told is taken back, unless the answer `arrived`, which the server knows by the connection
/// and by whether the answer was given because it was due.
pub(crate) fn ended<A: Around>(
    around: &mut A,
    ticket: Ticket,
    gone: bool,
    arrived: impl FnOnce(u64, bool) -> bool,
) {
    let told = around.state(|state| state.told_client(ticket)).filter(|_| gone);
    if told.is_some_and(|(client, unblocked)| !arrived(client, unblocked)) {
        around.state(|state| state.depart(ticket));
    }
}
