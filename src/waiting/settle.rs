//! What becomes of a lock that something has happened to.

use super::alarms::lease_moved;
use super::hand_over::{grant_head, pass_on, reenter};
use super::sessions;
use super::site::{Note, Site};
use super::state::{Session, Word};
use crate::lock::{self, Deadline, Now, Released};

/// Brings a lock, its session and its queue to agreement, whatever has happened to any of them: a free lock goes to the
/// head of its queue, the holder's own waiters re-enter, and a lapse will be seen when it comes.
#[inline]
pub(crate) fn settle<S: Site>(site: &mut S, now: Now) {
    if !site.idle() {
        settle_all(site, now);
    }
}

/// Apart, so that an idle lock pays for the question alone.
#[inline(never)]
fn settle_all<S: Site>(site: &mut S, now: Now) {
    let due = site.here(|state, at| {
        state.is_looked_at(at, now.millis());
        state.due(at)
    });
    if due.lapsed {
        sessions::revive(site, now);
    }
    if due.watched.is_some_and(|fence| site.grant().is_none_or(|grant| grant.fence() != fence)) {
        site.here(|state, at| state.end_watch(at, Some(Word::Lost)));
    }
    if due.dead {
        bury_dead(site, now);
    }
    if due.session {
        settle_session(site, now);
    }
    match site.grant().map(|grant| grant.owner().into_owned()) {
        Some(owner) => {
            reenter(site, &owner, now);
            let deadline = site.deadline();
            lease_moved(site, deadline, now);
            if due.watched.is_some() {
                // Where an unclaimed hold has been taken back, the grant may go on by others.
                site.here(|state, at| state.tell_wanted(at));
            }
        }
        None => {
            grant_head(site, now);
        }
    }
}

/// Takes back what was granted to waiters that went away before they were answered: one hold each.
fn bury_dead<S: Site>(site: &mut S, now: Now) {
    while let Some(fence) = site.here(|state, at| state.take_dead(at)) {
        let owner = site.grant().map(|grant| grant.owner().into_owned());
        match owner.and_then(|owner| lock::release(site.grant(), &owner, Some(fence.get()), false)) {
            Some(Released::Kept { holds }) => {
                let deadline = site.deadline();
                site.update(holds, deadline);
            }
            Some(Released::Ended) => pass_on(site, Note::TakenBack, || now),
            None => (),
        }
    }
}

/// Does for the session of a lock what is due: renews the lease, or releases the grant of a closed connection.
fn settle_session<S: Site>(site: &mut S, now: Now) {
    let Some(session) = site.here(|state, at| state.session(at)) else { return };
    if site.grant().is_none_or(|grant| grant.fence() != session.fence) {
        site.here(|state, at| state.end_session(at));
        return;
    }
    // Somebody may have cut the lease short: then it ends before it would be renewed.
    let renew = session.renew_at <= now.millis() || site.deadline() < Deadline::At(session.renew_at);
    // The server tells of each connection that closes. What is renewed for ever must not stand on that alone.
    if session.over || renew && !site.is_open(session.client) {
        // Some servers tell only after the timers have rung: then the session is that waiter's.
        if !site.here(|state, at| state.has_heir(at, session.fence)) {
            pass_on(site, Note::SessionEnded, || now);
        }
    } else if renew {
        let limits = site.limits();
        let lease = limits.allowed(session.lease);
        let Some(held) = site.held() else { return };
        let (holds, until) = (held.grant.holds(), lock::lengthen(held, lease, limits, now.start));
        site.update(holds, until);
        let renew_at = sessions::next_renewal(lease, now.millis());
        site.here(|state, at| state.start_session(at, Session { renew_at, ..session }));
    } else {
        site.here(|state, at| state.renew_by(at, session.renew_at));
    }
}
