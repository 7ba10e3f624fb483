//! Which connection keeps which grants alive.

use super::line::Lapsed;
use super::waiter::{Phase, Session};
use super::{At, State};
use crate::lock::{Fence, Grant, Millis};

impl<C: Copy> State<C> {
    pub(crate) fn session(&self, at: At<'_>) -> Option<Session> {
        let session = self.line(at)?.session?;
        Some(Session { over: session.over || self.connections.is_closed(session.client), ..session })
    }

    /// Whether somebody is to hear of a lapse, since they wait or hold the lock; and the session.
    pub(crate) fn watched(&self, at: At<'_>) -> (bool, Option<Session>) {
        self.line(at)
            .map_or((false, None), |line| (!line.queue.is_empty() || line.watch.is_some(), line.session))
    }

    /// Whether a connection keeps the grant with that fence alive.
    pub(crate) fn is_alive(&self, at: At<'_>, fence: Fence) -> bool {
        self.session(at).is_some_and(|session| session.fence == fence && !session.over)
    }

    /// Has a connection keep a grant alive, in place of any other.
    pub(crate) fn start_session(&mut self, at: At<'_>, session: Session) {
        let (place, line) = self.open_line(at);
        let earlier = line.session.replace(session);
        if let Some(earlier) = earlier.filter(|earlier| earlier.client != session.client) {
            self.connections.remove_session(earlier.client, &place);
        }
        self.connections.add_session(session.client, place);
        self.renew_by(at, session.renew_at);
    }

    /// The client of the running command keeps that grant alive from now on, not the waiters that got it before and are
    /// still to be told.
    pub(crate) fn take_session_over(&mut self, at: At<'_>, fence: Fence) {
        let given: Vec<_> = self.given(at, fence).collect();
        for ticket in given {
            if let Some(waiter) = self.waiters.get_mut(&ticket) {
                waiter.ask.session = false;
            }
        }
    }

    /// Whether a waiter that is still to be told of that grant will keep it alive. If it goes away instead, the lock is looked
    /// at again.
    pub(crate) fn has_heir(&self, at: At<'_>, fence: Fence) -> bool {
        let mut waiters = self.given(at, fence).filter_map(|ticket| self.waiters.get(&ticket));
        waiters.any(|waiter| waiter.ask.session && matches!(waiter.phase, Phase::Answered(_)))
    }

    /// No connection keeps the grant alive any more.
    pub(crate) fn end_session(&mut self, at: At<'_>) {
        let Some(place) = self.place(at) else { return };
        if let Some(session) = self.with_line(at, |line| line.session.take()).flatten() {
            self.connections.remove_session(session.client, &place);
        }
    }

    /// The session of that grant, where its renewal has fallen due, and has not been seen to since though it could.
    pub(crate) fn overdue_session(&self, at: At<'_>, fence: Fence, now: Millis) -> Option<Session> {
        self.session(at).filter(|session| {
            session.fence == fence
                && session.renew_at <= now
                && self.rang_at < session.renew_at
                && self.quiet_until <= session.renew_at
        })
    }

    /// Keeps a grant whose lease ended while this server stood still.
    pub(crate) fn keep_lapsed(&mut self, at: At<'_>, grant: Grant) {
        let kept_at = self.happened;
        self.with_line(at, |line| line.lapsed = Some(Box::new(Lapsed { grant, for_good: false, kept_at })));
        self.alarm_at(at, 0);
    }

    /// The grant that was kept so.
    pub(crate) fn take_lapsed(&mut self, at: At<'_>) -> Option<Lapsed> {
        let mut lapsed = *self.with_line(at, |line| line.lapsed.take()).flatten()?;
        lapsed.for_good |= self.is_touched_since(at.db, lapsed.kept_at);
        Some(lapsed)
    }
}
