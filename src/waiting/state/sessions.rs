//! Which connection keeps which grants alive.

use std::sync::Arc;

use super::State;
use crate::lock::Fence;
use crate::waiting::waiter::{Phase, Place, Session};

impl State {
    pub(in crate::waiting) fn session(&self, db: i32, key: &[u8]) -> Option<Session> {
        self.line(db, key)?.session
    }

    /// Has a connection keep a grant alive, in place of any other.
    pub(in crate::waiting) fn start_session(&mut self, db: i32, key: &[u8], session: Session) {
        let place = self.place(db, key).unwrap_or_else(|| Place { db, key: key.into() });
        let line = self.lines.entry(db).or_default().entry(Arc::clone(&place.key)).or_default();
        let earlier = line.session.replace(session);
        if let Some(earlier) = earlier.filter(|earlier| earlier.client != session.client) {
            self.forget_session(earlier.client, &place);
        }
        self.sessions.entry(session.client).or_default().insert(place.clone());
        self.alarm(place, session.renew_at);
    }

    /// The client of the running command keeps that grant alive from now on, not the waiters that got it before and are
    /// still to be told.
    pub(in crate::waiting) fn take_sessions_over(&mut self, fence: Fence) {
        for ticket in self.given(fence) {
            if let Some(waiter) = self.waiters.get_mut(&ticket) {
                waiter.ask.session = false;
            }
        }
    }

    /// Whether a waiter that is still to be told of that grant will keep it alive. If it goes away instead, the lock is looked
    /// at again.
    pub(in crate::waiting) fn has_heir(&self, fence: Fence) -> bool {
        let given = self.given(fence);
        let mut waiters = given.iter().filter_map(|ticket| self.waiters.get(ticket));
        waiters.any(|waiter| waiter.ask.session && matches!(waiter.phase, Phase::Answered(_)))
    }

    /// No connection keeps the grant alive any more.
    pub(in crate::waiting) fn end_session(&mut self, db: i32, key: &[u8]) {
        let Some(place) = self.place(db, key) else { return };
        let session = self.line_mut(db, key).and_then(|line| line.session.take());
        if let Some(session) = session {
            self.forget_session(session.client, &place);
            self.drop_line_if_empty(&place);
        }
    }

    fn forget_session(&mut self, client: u64, place: &Place) {
        if let Some(places) = self.sessions.get_mut(&client) {
            places.remove(place);
            if places.is_empty() {
                self.sessions.remove(&client);
            }
        }
    }

    /// A connection has closed: what it kept alive is to be released now. Whether there was anything.
    pub(in crate::waiting) fn disconnected(&mut self, client: u64) -> bool {
        let Some(places) = self.sessions.remove(&client) else { return false };
        for place in places {
            if let Some(session) = self.line_mut(place.db, &place.key).and_then(|line| line.session.as_mut())
            {
                session.over = true;
            }
            self.alarm(place, 0);
        }
        true
    }
}
