//! Which connection keeps which grants alive.

use super::grants::{Expired, GrantRecord, Synced};
use super::waiter::{Phase, Session};
use super::{LockId, LockRef, WaitTable};
use crate::lock::{Fence, Grant, Millis};

impl<C: Copy> WaitTable<C> {
    pub(crate) fn session(&self, at: LockRef<'_>, fence: Fence) -> Option<Session> {
        self.lock(at).grants.session(fence).map(|session| self.as_it_is(session))
    }

    fn as_it_is(&self, session: &Session) -> Session {
        Session { over: session.over || self.connections.is_closed(session.client), ..*session }
    }

    /// The next session of a lock, by its fence; of one whose connection has closed only, where not all are to be looked at.
    pub(crate) fn next_session(&self, at: LockRef<'_>, seen: Option<Fence>, all: bool) -> Option<Session> {
        let unseen = self.lock(at).grants.after(seen).filter_map(|record| record.session.as_ref());
        unseen.map(|session| self.as_it_is(session)).find(|session| all || session.over)
    }

    /// The connection that keeps the grant with that fence alive.
    pub(crate) fn session_client(&self, at: LockRef<'_>, fence: Fence) -> Option<u64> {
        self.session(at, fence).filter(|session| !session.over).map(|session| session.client)
    }

    /// Whether a connection that kept a grant of that lock alive has closed.
    pub(crate) fn has_session_over(&self, at: LockRef<'_>) -> bool {
        self.lock(at).sessions().any(|session| self.as_it_is(session).over)
    }

    /// Has a connection keep a grant alive, in place of any other.
    pub(crate) fn start_session(&mut self, at: LockRef<'_>, session: Session) {
        let (id, entry) = self.open_entry(at);
        let fence = session.fence;
        let earlier = entry.grants.open(fence, |record| record.session.replace(session)).flatten();
        if let Some(earlier) = earlier.filter(|earlier| earlier.client != session.client) {
            self.connections.remove_session(earlier.client, &id, fence);
        }
        self.connections.add_session(session.client, id, fence);
        self.renew_by(at, session.renew_at);
    }

    /// Has the session of a lock looked at that is to be renewed first.
    pub(crate) fn renew_next(&mut self, at: LockRef<'_>) {
        if let Some(first) = self.lock(at).sessions().map(|session| session.renew_at).min() {
            self.renew_by(at, first);
        }
    }

    /// Whether a waiter that is still to be told of that grant will keep it alive. If it goes away instead, the lock is looked
    /// at again.
    pub(crate) fn has_successor(&self, at: LockRef<'_>, fence: Fence) -> bool {
        let binding = self.lock(at).given(fence).filter(|hold| hold.binds);
        let mut waiters = binding.filter_map(|hold| self.waiters.get(&hold.request));
        waiters.any(|waiter| matches!(waiter.phase, Phase::Unconfirmed(_) | Phase::Answered(_)))
    }

    /// No connection keeps that grant alive any more.
    pub(crate) fn end_session(&mut self, at: LockRef<'_>, fence: Fence) {
        let Some(id) = self.id(at) else { return };
        let take = |record: &mut GrantRecord| (record.session.take(), record.synced.take());
        let ended = self.change(at, |entry| entry.grants.change(fence, take)).flatten();
        if let Some((Some(session), synced)) = ended {
            self.session_ended(&id, &session, synced);
        }
    }

    pub(super) fn session_ended(&mut self, id: &LockId, session: &Session, synced: Option<Box<Synced>>) {
        self.connections.remove_session(session.client, id, session.fence);
        if let Some(request) = synced.and_then(|synced| synced.pending) {
            self.end_pending(request);
        }
    }

    /// The session of that grant, where its renewal has fallen due, and has not been seen to since though it could. Not one that
    /// replicas confirm: who could not ask them may have been replaced.
    pub(crate) fn overdue_session(&self, at: LockRef<'_>, fence: Fence, now: Millis) -> Option<Session> {
        self.session(at, fence).filter(|session| {
            !self.lock(at).is_synced(fence) && self.timers.is_overdue(session.renew_at, now)
        })
    }

    /// The grants of a lock that have such a session.
    pub(crate) fn overdue_sessions(&self, at: LockRef<'_>, now: Millis) -> Vec<Fence> {
        let due =
            self.lock(at).sessions().filter(|session| session.renew_at <= now).map(|session| session.fence);
        due.filter(|fence| self.overdue_session(at, *fence, now).is_some()).collect()
    }

    /// Keeps a grant whose lease ended while this server stood still.
    pub(crate) fn keep_expired(&mut self, at: LockRef<'_>, grant: Grant) {
        let (kept_at, fence) = (self.sweeps.last_number(), grant.fence());
        self.change(at, |entry| {
            let expired = Some(Box::new(Expired { grant, for_good: false, kept_at }));
            entry.grants.open(fence, |record| record.expired = expired);
        });
        self.look_by(at, 0);
    }

    /// The grants that are kept so, and may be given back.
    pub(crate) fn kept_expired(&self, at: LockRef<'_>) -> Vec<Grant> {
        let may_be_given =
            |expired: &&Expired| !expired.for_good && !self.sweeps.is_touched_since(at.db, expired.kept_at);
        self.lock(at).expired().filter(may_be_given).map(|expired| expired.grant.clone()).collect()
    }

    /// The grants that were kept so.
    pub(crate) fn take_expired(&mut self, at: LockRef<'_>) -> Vec<Expired> {
        if !self.lock(at).has_expired() {
            return Vec::new();
        }
        let mut all = Vec::new();
        self.change(at, |entry| entry.grants.change_all(|record| all.extend(record.expired.take())));
        let touched = |expired: &Expired| self.sweeps.is_touched_since(at.db, expired.kept_at);
        all.into_iter()
            .map(|expired| Expired { for_good: expired.for_good || touched(&expired), ..*expired })
            .collect()
    }
}
