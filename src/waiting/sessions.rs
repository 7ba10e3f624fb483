//! Grants that live as long as a connection: renewed while it is open, released when it closes.
//!
//! The lease is still the truth: a session only moves it, a third of the lease at a time, so that it lapses by itself if
//! this server dies. Nothing of a session is saved or replicated; an owner that comes back says so (`ONCE SESSION`).

use super::site::{Around, Note, Site};
use super::state::{At, Lapsed, Session, State, Told};
use crate::lock::{self, Deadline, Fence, Grant, Millis, Now};

/// A lease is renewed when a third of it has gone by. Renewals that are due within a thirtieth of the lease are made in
/// one pass.
const RENEWALS_PER_LEASE: Millis = 3;
const PASSES_PER_LEASE: Millis = 30;

/// Binds the grant with that fence to a connection, and to no other.
pub(super) fn start<S: Site>(
    site: &mut S,
    client: u64,
    fence: Fence,
    lease: Millis,
    until: Deadline,
    now: Now,
) {
    let lease = site.limits().allowed(lease);
    site.here(|state, at| {
        state.take_session_over(at, fence);
        bind(state, at, client, fence, lease, until, now.millis());
    });
}

/// Binds the grant of a waiter to its connection, now that it is told: one that is never told has no session. Nor has one
/// whose grant has ended since; `held` is what the lock is now.
pub(super) fn bind_told<C: Copy>(
    state: &mut State<C>,
    told: &Told,
    lease: Millis,
    held: Option<(Fence, Deadline)>,
    now: Millis,
) {
    let at = told.place.at();
    if let Some((fence, until)) = held.filter(|(fence, _)| told.answer.grants(*fence)) {
        bind(state, at, told.client_id, fence, lease, until, now);
    }
}

/// Has a connection keep a grant alive.
fn bind<C: Copy>(
    state: &mut State<C>,
    at: At<'_>,
    client: u64,
    fence: Fence,
    lease: Millis,
    until: Deadline,
    now: Millis,
) {
    let renew_at = next_renewal(lease, now);
    state.start_session(at, Session { client, fence, lease, renew_at, over: false });
    // The lease may end before that: so it was allowed.
    if until < Deadline::At(renew_at) {
        state.renew_by(at, look_again(until.left(now), now));
    }
}

/// The server has found the lease of a lock to be over, and has deleted it. Whether its session outlives that: the renewal was
/// due before, and this server stood still until now, so that nobody else could have been granted anything. The next step
/// on the lock, which is rung for, gives it back: `revive`.
pub(crate) fn outlives<A: Around>(around: &mut A, at: At<'_>, grant: &Grant, now: Now) -> bool {
    let Some(session) = around.state(|state| state.overdue_session(at, grant.fence(), now.millis())) else {
        return false;
    };
    if session.over || !around.is_open(session.client) || renewed(around, grant, &session, now).is_none() {
        return false;
    }
    around.state(|state| state.keep_lapsed(at, grant.clone()));
    true
}

/// The end of the lease that a session sets now; none where it may not.
fn renewed<A: Around>(around: &mut A, grant: &Grant, session: &Session, now: Now) -> Option<Deadline> {
    let limits = around.limits();
    lock::within_age(grant, session.lease, limits, now.start).filter(|_| limits.lengthen)
}

/// Gives a lock that `outlives` kept back to its owner, with the same fence.
pub(super) fn revive<S: Site>(site: &mut S, now: Now) {
    let Some(Lapsed { grant, for_good, .. }) = site.here(|state, at| state.take_lapsed(at)) else {
        return;
    };
    let session = site.here(|state, at| state.session(at)).filter(|session| session.fence == grant.fence());
    let until = session.and_then(|session| renewed(site, &grant, &session, now));
    match until.filter(|_| !for_good && site.grant().is_none()) {
        Some(until) => site.give(grant, until),
        None => site.note(Note::Lapsed),
    }
}

/// When a session is to look at its lease, which has been set to so many ms from now: before it ends.
pub(super) fn look_again(left: Millis, now: Millis) -> Millis {
    now.saturating_add(left / RENEWALS_PER_LEASE)
}

pub(super) fn next_renewal(lease: Millis, now: Millis) -> Millis {
    let pass = (lease / PASSES_PER_LEASE).max(1);
    let due = now.saturating_add(lease / RENEWALS_PER_LEASE);
    (due - due % pass).max(now.saturating_add(1))
}
