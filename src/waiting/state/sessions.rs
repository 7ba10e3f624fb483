//! Which connection keeps which grants alive.

use super::grants::{Expired, GrantRecord, Synced};
use super::line::Line;
use super::waiter::{Phase, Session};
use super::{At, Place, State};
use crate::lock::{Fence, Grant, Millis};

impl<C: Copy> State<C> {
    pub(crate) fn session(&self, at: At<'_>, fence: Fence) -> Option<Session> {
        self.line(at)?.grants.session(fence).map(|session| self.as_it_is(session))
    }

    fn as_it_is(&self, session: &Session) -> Session {
        Session { over: session.over || self.connections.is_closed(session.client), ..*session }
    }

    /// The next session of a lock, by its fence; of one whose connection has closed only, where not all are to be looked at.
    pub(crate) fn next_session(&self, at: At<'_>, seen: Option<Fence>, all: bool) -> Option<Session> {
        let unseen = self.line(at)?.grants.after(seen).filter_map(|record| record.session.as_ref());
        unseen.map(|session| self.as_it_is(session)).find(|session| all || session.over)
    }

    /// The grants of a lock that connections keep alive.
    pub(crate) fn fences_of_sessions(&self, at: At<'_>) -> Vec<Fence> {
        self.sessions_of(at).map(|session| session.fence).collect()
    }

    /// Whether somebody is to hear of a lapse, since they wait or hold the lock.
    pub(crate) fn is_watched(&self, at: At<'_>) -> bool {
        self.line(at).is_some_and(Line::is_watched)
    }

    /// The connection that keeps the grant with that fence alive.
    pub(crate) fn session_client(&self, at: At<'_>, fence: Fence) -> Option<u64> {
        self.session(at, fence).filter(|session| !session.over).map(|session| session.client)
    }

    /// Whether a connection that kept a grant of that lock alive has closed.
    pub(crate) fn has_session_over(&self, at: At<'_>) -> bool {
        self.sessions_of(at).any(|session| self.as_it_is(session).over)
    }

    fn sessions_of(&self, at: At<'_>) -> impl Iterator<Item = &Session> {
        self.line(at).into_iter().flat_map(|line| line.grants.sessions())
    }

    /// Has a connection keep a grant alive, in place of any other.
    pub(crate) fn start_session(&mut self, at: At<'_>, session: Session) {
        let (place, line) = self.open_line(at);
        let fence = session.fence;
        let earlier = line.grants.open(fence, |record| record.session.replace(session)).flatten();
        if let Some(earlier) = earlier.filter(|earlier| earlier.client != session.client) {
            self.connections.remove_session(earlier.client, &place, fence);
        }
        self.connections.add_session(session.client, place, fence);
        self.renew_by(at, session.renew_at);
    }

    /// Has a session looked at later.
    pub(crate) fn look_at_session(&mut self, at: At<'_>, fence: Fence, renew_at: Millis) {
        self.change_session(at, fence, |session| session.renew_at = renew_at);
    }

    pub(super) fn change_session(&mut self, at: At<'_>, fence: Fence, body: impl FnOnce(&mut Session)) {
        let change = |record: &mut GrantRecord| record.session.as_mut().map(body);
        self.with_line(at, |line| line.grants.change(fence, change));
    }

    /// Has the session of a lock looked at that is to be renewed first.
    pub(crate) fn renew_next(&mut self, at: At<'_>) {
        if let Some(first) = self.sessions_of(at).map(|session| session.renew_at).min() {
            self.renew_by(at, first);
        }
    }

    /// The client of the running command keeps that grant alive from now on, not the waiters that got it before and are
    /// still to be told.
    pub(crate) fn take_session_over(&mut self, at: At<'_>, fence: Fence) {
        self.with_line(at, |line| line.grants.change(fence, |record| record.untold.end_binds()));
    }

    /// Whether a waiter that is still to be told of that grant will keep it alive. If it goes away instead, the lock is looked
    /// at again.
    pub(crate) fn has_heir(&self, at: At<'_>, fence: Fence) -> bool {
        let binding = self.given(at, fence).filter(|hold| hold.binds);
        let mut waiters = binding.filter_map(|hold| self.waiters.get(&hold.ticket));
        waiters.any(|waiter| matches!(waiter.phase, Phase::Unconfirmed(_) | Phase::Answered(_)))
    }

    /// No connection keeps that grant alive any more.
    pub(crate) fn end_session(&mut self, at: At<'_>, fence: Fence) {
        let Some(place) = self.place(at) else { return };
        let take = |record: &mut GrantRecord| (record.session.take(), record.synced.take());
        let ended = self.with_line(at, |line| line.grants.change(fence, take)).flatten();
        if let Some((Some(session), synced)) = ended {
            self.session_ended(&place, &session, synced);
        }
    }

    pub(super) fn session_ended(&mut self, place: &Place, session: &Session, synced: Option<Box<Synced>>) {
        self.connections.remove_session(session.client, place, session.fence);
        if let Some(ticket) = synced.and_then(|synced| synced.pending) {
            self.end_pending(ticket);
        }
    }

    /// The session of that grant, where its renewal has fallen due, and has not been seen to since though it could. Not one that
    /// replicas confirm: who could not ask them may have been replaced.
    pub(crate) fn overdue_session(&self, at: At<'_>, fence: Fence, now: Millis) -> Option<Session> {
        self.session(at, fence).filter(|session| {
            !self.is_confirmed_session(at, fence) && self.timers.is_overdue(session.renew_at, now)
        })
    }

    /// The grants of a lock that have such a session.
    pub(crate) fn overdue_sessions(&self, at: At<'_>, now: Millis) -> Vec<Fence> {
        let due = self.sessions_of(at).filter(|session| session.renew_at <= now).map(|session| session.fence);
        due.filter(|fence| self.overdue_session(at, *fence, now).is_some()).collect()
    }

    /// Keeps a grant whose lease ended while this server stood still.
    pub(crate) fn keep_lapsed(&mut self, at: At<'_>, grant: Grant) {
        let (kept_at, fence) = (self.happened, grant.fence());
        self.with_line(at, |line| {
            let expired = Some(Box::new(Expired { grant, for_good: false, kept_at }));
            line.grants.open(fence, |record| record.expired = expired);
        });
        self.look_by(at, 0);
    }

    /// The grants that are kept so, and may be given back.
    pub(crate) fn kept_lapsed(&self, at: At<'_>) -> Vec<Grant> {
        let may_be_given =
            |expired: &&Expired| !expired.for_good && !self.is_touched_since(at.db, expired.kept_at);
        self.expired_of(at).filter(may_be_given).map(|expired| expired.grant.clone()).collect()
    }

    /// Whether something was kept so.
    pub(crate) fn has_lapsed(&self, at: At<'_>) -> bool {
        self.line(at).is_some_and(|line| line.grants.counts().expired > 0)
    }

    fn expired_of(&self, at: At<'_>) -> impl Iterator<Item = &Expired> {
        let line = self.line(at).filter(|line| line.grants.counts().expired > 0);
        line.into_iter().flat_map(|line| line.grants.iter()).filter_map(|record| record.expired.as_deref())
    }

    /// The grants that were kept so.
    pub(crate) fn take_lapsed(&mut self, at: At<'_>) -> Vec<Expired> {
        if !self.has_lapsed(at) {
            return Vec::new();
        }
        let mut all = Vec::new();
        self.with_line(at, |line| line.grants.change_all(|record| all.extend(record.expired.take())));
        let touched = |expired: &Expired| self.is_touched_since(at.db, expired.kept_at);
        all.into_iter()
            .map(|expired| Expired { for_good: expired.for_good || touched(&expired), ..*expired })
            .collect()
    }
}
