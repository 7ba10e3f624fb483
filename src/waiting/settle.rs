//! What becomes of a lock that something has happened to.

use super::budget::{CHANGE, END, LOOK, scan};
use super::hand_over::{check_upgrade, end_with_others, grant_heads, reenter};
use super::leases::{lease_moved, look_when_one_ends};
use super::sessions;
use super::site::{Note, Site, Sites};
use super::state::{Moved, Session, Word};
use crate::lock::{self, Deadline, Fence, Grant, Now, Owner, Released, Value};

/// Brings a lock, its sessions and its queue to agreement, whatever has happened to any of them: what has lapsed ends, what is
/// free goes to the head of the queue, the holders' own waiters re-enter, and a lapse will be seen when it comes.
///
/// Whether all of what is over has ended. If not, the budget of this step is used up; the lock counts as taken until the next turn
/// has done the rest.
#[inline]
pub(crate) fn settle<S: Site>(site: &mut S, now: Now) -> bool {
    if !site.idle() {
        settle_all(site, now)
    } else if site.value().is_some_and(|value| !value.is_one()) {
        end_lapsed(site, now)
    } else {
        true
    }
}

/// The same for each of several: the numbers of those of which not all has ended.
pub(super) fn settle_each<B: Sites>(sites: &mut B, now: Now) -> Vec<usize> {
    let mut unsettled = Vec::new();
    for number in 0..sites.count() {
        if sites.lock(number).is_some_and(|site| !settle(site, now)) {
            unsettled.push(number);
        }
    }
    unsettled
}

/// Apart, so that an idle lock pays for the question alone.
#[inline(never)]
fn settle_all<S: Site>(site: &mut S, now: Now) -> bool {
    if !site.pay(0) {
        if site.here(|state, at| state.look_by(at, 0) && state.has_lapsed(at)) {
            sessions::revive(site, now);
        }
        return !is_anything_over(site, now);
    }
    let due = site.here(|state, at| state.take_up(at, now.millis()));
    if due.lapsed {
        sessions::revive(site, now);
    }
    let mut all = end_lapsed(site, now);
    if due.records {
        end_missing(site);
    }
    if due.undeliverable {
        all &= take_back_all(site, now);
    }
    if due.session {
        all &= settle_sessions(site, due.sessions, now);
    }
    if !reenter_all(site, due.through, now) || !all {
        site.here(|state, at| state.look_through(at, 0));
    }
    if site.has_room() {
        grant_heads(site, false, now);
    }
    look_when_one_ends(site, now);
    if due.watched {
        // Where an unclaimed hold has been taken back, the grant may go on by others.
        site.here(|state, at| state.tell_wanted(at));
    }
    all
}

/// Whether a grant is to end that has not ended yet.
fn is_anything_over<S: Site>(site: &mut S, now: Now) -> bool {
    let has_lapsed =
        site.value().is_some_and(|value| value.lapsed(site.deadline(), now.millis()).next().is_some());
    has_lapsed || site.here(|state, at| state.has_undeliverable(at) || state.has_session_over(at))
}

/// Where not all of a lock could be settled: settles the grant of one owner, so that its command finds what is so. Whether it has one.
pub(super) fn settle_own<S: Site>(site: &mut S, owner: &Owner<'_>, now: Now) -> bool {
    let fence_of = |site: &S| site.value().and_then(|value| value.grant_of(owner)).map(Grant::fence);
    let Some(fence) = fence_of(site) else { return false };
    if !site.idle() {
        if let Some(holds) = site.here(|state, at| state.take_undeliverable_of(at, fence)) {
            take_back(site, fence, holds, now);
        }
        if let Some(session) = site.here(|state, at| state.session(at, fence)) {
            settle_session(site, session, now);
        }
    }
    let is_over = site.with_fence(fence).is_some_and(|held| held.deadline < Deadline::At(now.millis()));
    let is_one = site.value().is_none_or(Value::is_one);
    if is_over && !is_one && !sessions::renew_overdue(site, fence, now) {
        end_with_others(site, fence, Note::Lapsed, now);
    }
    fence_of(site) == Some(fence)
}

/// What ended while nobody looked, of several: the room is for the next ones. A session may outlive that. Whether all of it has
/// ended.
pub(super) fn end_lapsed<S: Site>(site: &mut S, now: Now) -> bool {
    let Some(value) = site.value().filter(|value| !value.is_one()) else { return true };
    let lapsed = value.lapsed(site.deadline(), now.millis()).count();
    let mut count = 0;
    while count < lapsed && site.pay(END) {
        count += 1;
    }
    if count == 0 {
        return lapsed == 0;
    }
    let mut over = count;
    if !site.idle()
        && let Some(value) = site.value()
    {
        let first: Vec<Fence> = value.lapsed(site.deadline(), now.millis()).take(count).collect();
        over -= first.into_iter().filter(|fence| sessions::renew_overdue(site, *fence, now)).count();
    }
    if over > 0 {
        for fence in site.end_lapsed(now.millis(), over) {
            if !site.idle() {
                site.here(|state, at| state.end_grant(at, fence, Some(Word::Lost)));
            }
        }
    }
    count == lapsed
}

/// Grants that have ended by other ways than ours are over here too, and their holders hear of it.
fn end_missing<S: Site>(site: &mut S) {
    let (mut seen, mut looked) = (None, 0);
    while let Some(fence) = site.here(|state, at| state.next_known(at, seen)) {
        seen = Some(fence);
        looked += 1;
        if site.with_fence(fence).is_none() {
            site.here(|state, at| state.end_grant(at, fence, Some(Word::Lost)));
            site.pay(CHANGE);
        }
    }
    site.spend(scan(looked));
}

/// The holders' own waiters re-enter; and nobody waits in front for a grant that has ended. Whether all were looked at.
fn reenter_all<S: Site>(site: &mut S, through: bool, now: Now) -> bool {
    check_upgrade(site);
    let several = match site.value() {
        Some(Value::One(grant)) => {
            let owner = grant.owner().into_owned();
            reenter(site, &owner, now);
            return true;
        }
        Some(value) if through => value.count(),
        _ => return true,
    };
    let waiters = site.here(|state, at| state.waiters_of(at));
    if !site.pay(scan(several.min(waiters))) {
        return false;
    }
    for owner in holders_or_waiters(site) {
        reenter(site, &owner, now);
        site.pay(LOOK);
    }
    true
}

/// The owners who hold a lock, or those who wait for it: whoever are fewer.
fn holders_or_waiters<S: Site>(site: &mut S) -> Vec<Owner<'static>> {
    let waiters = site.here(|state, at| state.waiters_of(at));
    match site.value().filter(|value| value.count() < waiters) {
        Some(value) => value.all(site.deadline()).map(|held| held.grant.owner().into_owned()).collect(),
        None => site.here(|state, at| state.owners_of(at)).into_iter().collect(),
    }
}

/// Takes back what was granted to waiters that went away before they were answered: one hold each. Whether all of it.
fn take_back_all<S: Site>(site: &mut S, now: Now) -> bool {
    while let Some((fence, holds)) = site.here(|state, at| state.take_undeliverable(at)) {
        take_back(site, fence, holds, now);
        if !site.pay(CHANGE) {
            return !site.here(|state, at| state.has_undeliverable(at));
        }
    }
    true
}

fn take_back<S: Site>(site: &mut S, fence: Fence, holds: u32, now: Now) {
    let Some(held) = site.with_fence(fence) else { return };
    let (room, until) = (held.grant.room(), held.deadline);
    match lock::take_back(held.grant, holds) {
        Released::Kept { holds } => site.update(fence, holds, room, until),
        Released::Ended => end_with_others(site, fence, Note::TakenBack, now),
    }
}

/// Does for the sessions of a lock what is due: renews leases, and releases the grants of closed connections. Of many, the rest in
/// the next step. Whether all those grants have ended.
fn settle_sessions<S: Site>(site: &mut S, all: bool, now: Now) -> bool {
    let mut seen = None;
    while let Some(session) = site.here(|state, at| state.next_session(at, seen, all)) {
        seen = Some(session.fence);
        if settle_session(site, session, now)
            && !site.pay(CHANGE)
            && site.here(|state, at| state.next_session(at, seen, all)).is_some()
        {
            site.here(|state, at| state.look_through(at, 0));
            return site.here(|state, at| state.next_session(at, seen, false)).is_none();
        }
    }
    site.here(|state, at| state.renew_next(at));
    true
}

/// Whether there was anything to do.
fn settle_session<S: Site>(site: &mut S, session: Session, now: Now) -> bool {
    let fence = session.fence;
    let Some(held) = site.with_fence(fence) else {
        site.here(|state, at| state.end_grant(at, fence, Some(Word::Lost)));
        return true;
    };
    // Somebody may have cut the lease short: then it ends before it would be renewed.
    let renew = session.renew_at <= now.millis() || held.deadline < Deadline::At(session.renew_at);
    // The server tells of each connection that closes. What is renewed for ever must not stand on that alone.
    if session.over || renew && !site.is_open(session.client) {
        // Some servers tell only after the timers have run: then the session is that waiter's.
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
        // In its last millisecond it is too late to ask replicas.
        let is_last = held.deadline <= Deadline::At(now.millis());
        let waits = site.here(|state, at| {
            state.awaits_renewal(at, fence) || is_last && state.is_confirmed_session(at, fence)
        });
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
