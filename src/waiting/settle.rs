//! What becomes of a lock that something has happened to.

use super::alarms::{lease_moved, look_when_one_ends};
use super::hand_over::{check_upgrade, end_with_others, grant_heads, reenter};
use super::sessions;
use super::site::{Note, Site, Sites};
use super::state::{Moved, Session, Word};
use crate::lock::{self, Deadline, Now, Owner, Released, Value};

/// Brings a lock, its sessions and its queue to agreement, whatever has happened to any of them: what has lapsed ends, what is
/// free goes to the head of the queue, the holders' own waiters re-enter, and a lapse will be seen when it comes.
#[inline]
pub(crate) fn settle<S: Site>(site: &mut S, now: Now) {
    if !site.idle() {
        settle_all(site, now);
    } else if site.value().is_some_and(|value| !value.is_one()) {
        end_lapsed(site, now);
    }
}

/// The same for each of several.
pub(super) fn settle_each<B: Sites>(sites: &mut B, now: Now) {
    for number in 0..sites.count() {
        if let Some(site) = sites.lock(number) {
            settle(site, now);
        }
    }
}

/// Apart, so that an idle lock pays for the question alone.
#[inline(never)]
fn settle_all<S: Site>(site: &mut S, now: Now) {
    let due = site.here(|state, at| state.take_up(at, now.millis()));
    if due.lapsed {
        sessions::revive(site, now);
    }
    end_lapsed(site, now);
    if due.watches {
        end_watches(site);
    }
    if due.dead {
        bury_dead(site, now);
    }
    if due.session {
        settle_sessions(site, due.sessions, now);
    }
    reenter_all(site, due.through, now);
    if site.has_room() {
        grant_heads(site, false, now);
    }
    look_when_one_ends(site, now);
    if due.watched {
        // Where an unclaimed hold has been taken back, the grant may go on by others.
        site.here(|state, at| state.tell_wanted(at));
    }
}

/// What ended while nobody looked, of several: the room is for the next ones. A session may outlive that.
fn end_lapsed<S: Site>(site: &mut S, now: Now) {
    let Some(value) = site.value().filter(|value| !value.is_one()) else { return };
    let lapsed = value.lapsed(site.deadline(), now.millis());
    if lapsed.is_empty() {
        return;
    }
    if !site.idle() {
        for fence in lapsed {
            sessions::renew_overdue(site, fence, now);
        }
    }
    for fence in site.end_lapsed(now.millis()) {
        if !site.idle() {
            site.here(|state, at| state.end_grant(at, fence, Some(Word::Lost)));
        }
    }
}

/// Holders hear of grants that have ended by other ways than ours.
fn end_watches<S: Site>(site: &mut S) {
    let mut seen = None;
    while let Some(fence) = site.here(|state, at| state.next_watched(at, seen)) {
        seen = Some(fence);
        if site.with_fence(fence).is_none() {
            site.here(|state, at| state.end_watch(at, fence, Some(Word::Lost)));
        }
    }
}

/// The holders' own waiters re-enter; and nobody waits in front for a grant that has ended.
fn reenter_all<S: Site>(site: &mut S, through: bool, now: Now) {
    check_upgrade(site);
    let owners = match site.value() {
        Some(Value::One(grant)) => {
            let owner = grant.owner().into_owned();
            return reenter(site, &owner, now);
        }
        Some(_) if through => holders_or_waiters(site),
        _ => return,
    };
    for owner in owners {
        reenter(site, &owner, now);
    }
}

/// The owners who hold a lock, or those who wait for it: whoever are fewer.
fn holders_or_waiters<S: Site>(site: &mut S) -> Vec<Owner<'static>> {
    let waiters = site.here(|state, at| state.waiters_of(at));
    match site.value().filter(|value| value.count() < waiters) {
        Some(value) => value.all(site.deadline()).map(|held| held.grant.owner().into_owned()).collect(),
        None => site.here(|state, at| state.owners_of(at)).into_iter().collect(),
    }
}

/// Takes back what was granted to waiters that went away before they were answered: one hold each.
fn bury_dead<S: Site>(site: &mut S, now: Now) {
    while let Some(fence) = site.here(|state, at| state.take_dead(at)) {
        let Some(held) = site.with_fence(fence) else { continue };
        let (room, until) = (held.grant.room(), held.deadline);
        match lock::release(Some(held.grant), None, false) {
            Some(Released::Kept { holds }) => site.update(fence, holds, room, until),
            Some(Released::Ended) => end_with_others(site, fence, Note::TakenBack, now),
            None => (),
        }
    }
}

/// Does for the sessions of a lock what is due: renews leases, and releases the grants of closed connections. Of many, the rest in
/// the next step.
fn settle_sessions<S: Site>(site: &mut S, all: bool, now: Now) {
    let (mut seen, mut done) = (None, 0);
    while done < site.at_once() {
        let Some(session) = site.here(|state, at| state.next_session(at, seen, all)) else {
            site.here(|state, at| state.renew_next(at));
            return;
        };
        seen = Some(session.fence);
        done += usize::from(settle_session(site, session, now));
    }
    site.here(|state, at| state.look_through(at, 0));
}

/// Whether there was anything to do.
fn settle_session<S: Site>(site: &mut S, session: Session, now: Now) -> bool {
    let fence = session.fence;
    let Some(held) = site.with_fence(fence) else {
        site.here(|state, at| state.end_session(at, fence));
        return true;
    };
    // Somebody may have cut the lease short: then it ends before it would be renewed.
    let renew = session.renew_at <= now.millis() || held.deadline < Deadline::At(session.renew_at);
    // The server tells of each connection that closes. What is renewed for ever must not stand on that alone.
    if session.over || renew && !site.is_open(session.client) {
        // Some servers tell only after the timers have rung: then the session is that waiter's.
        if site.here(|state, at| state.has_heir(at, fence)) {
            if session.renew_at <= now.millis() {
                // It may be some time until that is told.
                let renew_at = sessions::next_renewal(session.lease, now.millis());
                site.here(|state, at| state.look_at_session(at, fence, renew_at));
            }
            return false;
        }
        end_with_others(site, fence, Note::SessionEnded, now);
    } else if let Some(moved) = site.here(|state, at| state.take_unconfirmed_renewal(at, fence, now.millis()))
    {
        set_back(site, session, moved, now);
    } else if renew {
        let limits = site.limits();
        let lease = limits.allowed(session.lease);
        let Some(held) = site.with_fence(fence) else { return true };
        let (holds, room) = (held.grant.holds(), held.grant.room());
        let moved = Moved { from: held.deadline, to: lock::lengthen(held, lease, limits, now.start) };
        let waits = site.here(|state, at| state.awaits_renewal(at, fence));
        if !waits {
            site.update(fence, holds, room, moved.to);
        }
        let renew_at = sessions::next_renewal(lease, now.millis());
        site.here(|state, at| {
            state.start_session(at, Session { renew_at, ..session });
            if !waits {
                state.await_renewal(at, fence, moved, now.millis());
            }
        });
    } else {
        return false;
    }
    true
}

/// Undoes a renewal that replicas have not confirmed in time, unless somebody else has moved the lease since. It is tried again.
fn set_back<S: Site>(site: &mut S, session: Session, moved: Moved, now: Now) {
    let Some(held) = site.with_fence(session.fence) else { return };
    let (holds, room, mut until) = (held.grant.holds(), held.grant.room(), held.deadline);
    if until == moved.to {
        until = moved.from;
        site.update(session.fence, holds, room, until);
        lease_moved(site, session.fence, until, now);
    }
    let renew_at = sessions::look_again(until.left(now.millis()), now.millis());
    site.here(|state, at| state.start_session(at, Session { renew_at, ..session }));
}
