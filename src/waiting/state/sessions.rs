//! Which connection keeps which grants alive.

use super::line::{Lapsed, Line};
use super::waiter::{Phase, Session, Waiter};
use super::{At, State};
use crate::lock::{Fence, Grant, Millis};

impl<C: Copy> State<C> {
    pub(crate) fn session(&self, at: At<'_>, fence: Fence) -> Option<Session> {
        self.line(at)?.session(fence).map(|session| self.as_it_is(session))
    }

    fn as_it_is(&self, session: &Session) -> Session {
        Session { over: session.over || self.connections.is_closed(session.client), ..*session }
    }

    /// The next session of a lock, by its fence; of one whose connection has closed only, where not all are to be looked at.
    pub(crate) fn next_session(&self, at: At<'_>, seen: Option<Fence>, all: bool) -> Option<Session> {
        let sessions = &self.line(at)?.sessions;
        let unseen = sessions.partition_point(|session| Some(session.fence) <= seen);
        let mut unseen = sessions.iter().skip(unseen).map(|session| self.as_it_is(session));
        unseen.find(|session| all || session.over)
    }

    /// The grants of a lock that connections keep alive.
    pub(crate) fn fences_of_sessions(&self, at: At<'_>) -> Vec<Fence> {
        let sessions = self.line(at).into_iter().flat_map(|line| &line.sessions);
        sessions.map(|session| session.fence).collect()
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
        let mut sessions = self.line(at).into_iter().flat_map(|line| &line.sessions);
        sessions.any(|session| self.as_it_is(session).over)
    }

    /// Has a connection keep a grant alive, in place of any other.
    pub(crate) fn start_session(&mut self, at: At<'_>, session: Session) {
        let (place, line) = self.open_line(at);
        let fence = session.fence;
        let earlier = match line.sessions.binary_search_by_key(&fence, |session| session.fence) {
            Ok(known) => line.sessions.get_mut(known).map(|known| std::mem::replace(known, session)),
            Err(next) => {
                // Not four at once: there is one, as a rule.
                if line.sessions.is_empty() {
                    line.sessions.reserve_exact(1);
                }
                line.sessions.insert(next, session);
                None
            }
        };
        if let Some(earlier) = earlier.filter(|earlier| earlier.client != session.client) {
            self.connections.remove_session(earlier.client, &place, fence);
        }
        self.connections.add_session(session.client, place, fence);
        self.renew_by(at, session.renew_at);
    }

    /// Has a session looked at later.
    pub(crate) fn look_at_session(&mut self, at: At<'_>, fence: Fence, renew_at: Millis) {
        self.with_line(at, |line| {
            let place = line.sessions.binary_search_by_key(&fence, |session| session.fence);
            let session = place.ok().and_then(|place| line.sessions.get_mut(place));
            session.into_iter().for_each(|session| session.renew_at = renew_at);
        });
    }

    /// Has the session of a lock looked at that is to be renewed first.
    pub(crate) fn renew_next(&mut self, at: At<'_>) {
        let sessions = self.line(at).into_iter().flat_map(|line| &line.sessions);
        if let Some(first) = sessions.map(|session| session.renew_at).min() {
            self.renew_by(at, first);
        }
    }

    /// The client of the running command keeps that grant alive from now on, not the waiters that got it before and are
    /// still to be told.
    pub(crate) fn take_session_over(&mut self, at: At<'_>, fence: Fence) {
        let given: Vec<_> = self.given(at, fence).collect();
        for ticket in given {
            if let Some(stand) = self.waiters.get_mut(&ticket).and_then(|waiter| waiter.stands.at_mut(at)) {
                stand.binds = false;
            }
        }
    }

    /// Whether a waiter that is still to be told of that grant will keep it alive. If it goes away instead, the lock is looked
    /// at again.
    pub(crate) fn has_heir(&self, at: At<'_>, fence: Fence) -> bool {
        let mut waiters = self.given(at, fence).filter_map(|ticket| self.waiters.get(&ticket));
        let binds = |waiter: &Waiter<C>| waiter.stands.at(at).is_some_and(|stand| stand.binds);
        waiters
            .any(|waiter| binds(waiter) && matches!(waiter.phase, Phase::Unconfirmed(_) | Phase::Answered(_)))
    }

    /// No connection keeps that grant alive any more.
    pub(crate) fn end_session(&mut self, at: At<'_>, fence: Fence) {
        self.end_confirmed_session(at, fence);
        let Some(place) = self.place(at) else { return };
        let ended = self.with_line(at, |line| {
            let place = line.sessions.binary_search_by_key(&fence, |session| session.fence).ok()?;
            Some(line.sessions.remove(place))
        });
        if let Some(session) = ended.flatten() {
            self.connections.remove_session(session.client, &place, fence);
        }
    }

    /// The same for all grants of a lock.
    pub(super) fn end_sessions(&mut self, at: At<'_>) {
        let Some(place) = self.place(at) else { return };
        for session in self.with_line(at, |line| std::mem::take(&mut line.sessions)).unwrap_or_default() {
            self.end_confirmed_session(at, session.fence);
            self.connections.remove_session(session.client, &place, session.fence);
        }
    }

    /// The session of that grant, where its renewal has fallen due, and has not been seen to since though it could. Not one that
    /// replicas confirm: who could not ask them may have been replaced.
    pub(crate) fn overdue_session(&self, at: At<'_>, fence: Fence, now: Millis) -> Option<Session> {
        self.session(at, fence).filter(|session| {
            !self.is_confirmed_session(at, fence)
                && session.renew_at <= now
                && self.rang_at < session.renew_at
                && self.quiet_until <= session.renew_at
        })
    }

    /// The grants of a lock that have such a session.
    pub(crate) fn overdue_sessions(&self, at: At<'_>, now: Millis) -> Vec<Fence> {
        let sessions = self.line(at).into_iter().flat_map(|line| &line.sessions);
        let due = sessions.filter(|session| session.renew_at <= now).map(|session| session.fence);
        due.filter(|fence| self.overdue_session(at, *fence, now).is_some()).collect()
    }

    /// Keeps a grant whose lease ended while this server stood still.
    pub(crate) fn keep_lapsed(&mut self, at: At<'_>, grant: Grant) {
        let kept_at = self.happened;
        self.with_line(at, |line| {
            let earlier = line.lapsed.take_if(|lapsed| lapsed.kept_at == kept_at && !lapsed.for_good);
            let mut lapsed =
                earlier.unwrap_or_else(|| Box::new(Lapsed { grants: Vec::new(), for_good: false, kept_at }));
            lapsed.grants.push(grant);
            line.lapsed = Some(lapsed);
        });
        self.alarm_at(at, 0);
    }

    /// The grants that are kept so, and may be given back.
    pub(crate) fn kept_lapsed(&self, at: At<'_>) -> Vec<Grant> {
        let lapsed = self.line(at).and_then(|line| line.lapsed.as_deref());
        let kept = lapsed.filter(|lapsed| !lapsed.for_good && !self.is_touched_since(at.db, lapsed.kept_at));
        kept.map(|lapsed| lapsed.grants.clone()).unwrap_or_default()
    }

    /// Whether something was kept so.
    pub(crate) fn has_lapsed(&self, at: At<'_>) -> bool {
        self.line(at).is_some_and(|line| line.lapsed.is_some())
    }

    /// The grants that were kept so.
    pub(crate) fn take_lapsed(&mut self, at: At<'_>) -> Option<Lapsed> {
        let mut lapsed = *self.with_line(at, |line| line.lapsed.take()).flatten()?;
        lapsed.for_good |= self.is_touched_since(at.db, lapsed.kept_at);
        Some(lapsed)
    }
}
