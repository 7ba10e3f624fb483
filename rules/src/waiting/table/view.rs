//! Views of the table, for the rules and for `DETECT`: which owner waits where, and which connection keeps a grant alive. When a connection
//! has closed, its sessions count as over here, even before `clear_up` ends them. `ask_of` leaves out the places of such a connection, and
//! in `ahead_of` these places keep nobody waiting. But an unclaimed grant of such a place still holds its lock.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::WaitTable;
use super::lock_id::{LockId, LockRef};
use super::queue::RequestId;
use super::waiter::{Answer, Phase, Session, Waiter};
use crate::lock::{AcquireRequest, Fence, Millis, Owner, Room, SlotRequest};

/// A waiter that is ahead of another waiter in a queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ahead {
    pub(crate) request: RequestId,
    pub(crate) room: Room,
    /// Whether room for one more holder is not enough for the waiter: it also needs other locks, or a permit with a certain number (slot).
    pub(crate) wants_more: bool,
}

impl<C: Copy> WaitTable<C> {
    /// Returns the first waiter for a lock, and its request.
    pub(crate) fn head(&self, at: LockRef<'_>) -> Option<(RequestId, AcquireRequest<'static>)> {
        self.asked(self.locks.lock(at).head()?)
    }

    /// Returns the first waiter of this owner that came after the request `seen`, and its request.
    pub(crate) fn next_of(
        &self,
        at: LockRef<'_>,
        owner: &Owner<'static>,
        seen: Option<RequestId>,
    ) -> Option<(RequestId, AcquireRequest<'static>)> {
        self.asked(self.locks.lock(at).queue.next_of(owner, seen)?)
    }

    fn asked(&self, request: RequestId) -> Option<(RequestId, AcquireRequest<'static>)> {
        let waiter = self.waiters.get_queued(request);
        debug_assert!(waiter.is_some(), "{request:?} is in a queue");
        Some((request, waiter?.ask.clone()))
    }

    /// Returns the owners that wait for a lock, each once.
    pub(crate) fn owners_of(&self, at: LockRef<'_>) -> BTreeSet<Owner<'static>> {
        let waiters = self.locks.lock(at).queue.iter().filter_map(|request| self.waiters.get(request));
        waiters.map(|waiter| waiter.ask.owner.clone()).collect()
    }

    /// Returns the owner for whom a lock is reserved while the lock is free. This is the first waiter's owner, if this waiter waits for
    /// other locks, too.
    pub fn reserved_for(&self, at: LockRef<'_>) -> Option<Owner<'static>> {
        let next = self.locks.lock(at).head().and_then(|head| self.waiters.get(head));
        next.filter(|waiter| waiter.locks.are_several()).map(|waiter| waiter.ask.owner.clone())
    }

    /// Whether this request is a place whose connection has closed, but that `clear_up` has not removed yet.
    pub(crate) fn is_gone(&self, request: RequestId) -> bool {
        let place = || self.waiters.get(request).filter(|waiter| waiter.channel().is_some());
        self.connections.has_closed() && place().is_some_and(|waiter| self.is_closed(waiter))
    }

    fn is_closed(&self, waiter: &Waiter<C>) -> bool {
        self.connections.is_closed(waiter.client_id)
    }

    pub(crate) fn session(&self, at: LockRef<'_>, fence: Fence) -> Option<Session> {
        self.locks.lock(at).grants.session(fence).map(|session| self.as_it_is(session))
    }

    fn as_it_is(&self, session: &Session) -> Session {
        Session { over: self.connections.is_over(session), ..*session }
    }

    /// Returns at most `most` grants of a lock that have sessions, the next ones after the fence `seen`. Without `all`, returns only grants
    /// whose connections have closed, and finds them without going through all sessions if there are many.
    pub(crate) fn next_sessions(
        &self,
        at: LockRef<'_>,
        seen: Option<Fence>,
        all: bool,
        most: usize,
    ) -> Vec<Fence> {
        let grants = &self.locks.lock(at).grants;
        let (sessions, closed) = (grants.counts().sessions as usize, self.connections.closed());
        if all || closed >= sessions {
            let unseen = grants.after(seen).filter_map(|record| record.session.as_ref());
            let wanted = unseen.filter(|session| all || self.connections.is_over(session));
            return wanted.map(|session| session.fence).take(most).collect();
        }
        let marked = grants.over_after(seen).take(most);
        if closed == 0 {
            return marked.collect();
        }
        let unmarked = BTreeSet::from_iter(self.connections.closed_sessions(&self.locks.id(at), seen, most));
        BTreeSet::from_iter(marked.chain(unmarked)).into_iter().take(most).collect()
    }

    /// Returns the connection that keeps the grant with this fence alive.
    pub fn session_client(&self, at: LockRef<'_>, fence: Fence) -> Option<u64> {
        self.session(at, fence).filter(|session| !session.over).map(|session| session.client)
    }

    /// Returns the address for messages to the holder of the grant with this fence, if there is one.
    pub fn address(&self, at: LockRef<'_>, fence: Fence) -> Option<Arc<[u8]>> {
        self.locks.lock(at).grants.address(fence).cloned()
    }

    /// Returns the grants of which a waiter is about to be told, and which may have ended or changed meanwhile: something other than the
    /// module may have changed their locks since the module last compared their entries with their keys, or clients have gone away. If
    /// replicas had to confirm the answer, returns all its grants.
    pub(crate) fn doubtful(&self, request: RequestId) -> Vec<(LockId, Fence)> {
        let is_to_be_told = |waiter: &&Waiter<C>| {
            matches!(waiter.phase, Phase::Answered(Answer::Granted { .. } | Answer::Extended { .. }))
        };
        let Some(waiter) = self.waiters.get(request).filter(is_to_be_told) else { return Vec::new() };
        let is_doubtful = |at: LockRef<'_>| {
            waiter.confirm.is_some()
                || self.locks.lock(at).recheck
                || self.locks.sweeps.is_touched_since(at.db, 0)
                || self.has_left(at)
        };
        let doubtful = waiter.locks.all().iter().filter(|lock| is_doubtful(lock.id.to_ref()));
        doubtful.filter_map(|lock| Some((lock.id.clone(), lock.fence()?))).collect()
    }

    /// Whether holds of this lock have to be taken back, or grants have to be ended, because clients have gone away.
    pub(crate) fn has_left(&self, at: LockRef<'_>) -> bool {
        self.locks.lock(at).has_undeliverable() || self.has_session_over(at)
    }

    /// Whether a grant with this many holds has to be ended, because clients have gone away: all its holds have to be taken back, or the
    /// connection that kept it alive has closed.
    pub(crate) fn is_left(&self, at: LockRef<'_>, fence: Fence, holds: u32) -> bool {
        let entry = self.locks.lock(at);
        let session = entry.grants.session(fence);
        entry.undeliverable_of(fence) >= holds
            || session.is_some_and(|session| self.connections.is_over(session))
                && !self.has_successor(at, fence)
    }

    /// Whether a connection that kept a grant of this lock alive has closed.
    pub(super) fn has_session_over(&self, at: LockRef<'_>) -> bool {
        // Each release of a lock with waiters asks this, and most of these locks have no sessions.
        self.locks.lock(at).grants.counts().sessions > 0 && !self.next_sessions(at, None, false, 1).is_empty()
    }

    /// Whether a waiter that has not been told of this grant yet will keep the grant alive, with its connection, once it has been told. If
    /// this waiter goes away instead, a timer looks at the lock again.
    pub(crate) fn has_successor(&self, at: LockRef<'_>, fence: Fence) -> bool {
        let binding = self.locks.lock(at).grants.given(fence).filter(|hold| hold.binds);
        let mut waiters = binding.filter_map(|hold| self.waiters.get(hold.request));
        waiters.any(|waiter| matches!(waiter.phase, Phase::Unconfirmed(_) | Phase::Answered(_)))
    }

    /// Returns the session of this grant, if its renewal was due and this server could not make the renewal in time. Leaves out a session
    /// whose renewals replicas have to confirm: while this server could not ask its replicas, one of them may have become the primary.
    pub(crate) fn overdue_session(&self, at: LockRef<'_>, fence: Fence, now: Millis) -> Option<Session> {
        self.session(at, fence).filter(|session| {
            !self.locks.lock(at).is_synced(fence) && self.locks.timers.is_overdue(session.renew_at, now)
        })
    }

    pub fn overdue_sessions(&self, at: LockRef<'_>, now: Millis) -> Vec<Fence> {
        let due = self.locks.lock(at).grants.sessions().filter(|session| session.renew_at <= now);
        let fences = due.map(|session| session.fence);
        fences.filter(|fence| self.overdue_session(at, *fence, now).is_some()).collect()
    }

    /// Whether work at this lock is due now: a timer, a closed connection, or a change to all keys of the database. Other locks may be
    /// ahead of this lock in the order in which the module does such work.
    pub(super) fn is_overdue(&self, id: &LockId, now: Millis) -> bool {
        let entry = self.locks.lock(id.to_ref());
        let is_due = || entry.timers.is_due(now) || self.has_session_over(id.to_ref());
        !entry.is_over() && (is_due() || self.locks.sweeps.is_touched_since(id.db, 0))
    }

    /// Whether work at any lock of a waiter is due now.
    pub(crate) fn is_any_overdue(&self, request: RequestId, now: Millis) -> bool {
        let mut locks = self.waiters.get(request).into_iter().flat_map(|waiter| waiter.locks.all());
        locks.any(|lock| self.is_overdue(&lock.id, now))
    }

    /// Returns the request of a waiter in a queue; `None` if the waiter's connection has closed.
    pub(crate) fn ask_of(&self, request: RequestId) -> Option<AcquireRequest<'static>> {
        let waiter = self.waiters.get_queued(request).filter(|waiter| !self.is_closed(waiter))?;
        Some(waiter.ask.clone())
    }

    /// Returns the waiters that are served before `request`, in order. Without a `request`, returns those that are served before a request
    /// that comes now.
    pub(crate) fn ahead_of(
        &self,
        at: LockRef<'_>,
        request: Option<RequestId>,
    ) -> impl Iterator<Item = Ahead> {
        let ahead = self.locks.lock(at).in_order().take_while(move |other| Some(*other) != request);
        ahead.filter_map(move |request| {
            let waiter = self.waiters.get(request)?;
            if self.is_closed(waiter) {
                // A place of a closed connection keeps nobody waiting.
                return Some(Ahead { request, room: Room::ANY, wants_more: false });
            }
            let ask = &waiter.ask;
            let wants_more = waiter.locks.are_several() || matches!(ask.slot, Some(SlotRequest::This(_)));
            Some(Ahead { request, room: ask.room, wants_more })
        })
    }

    /// Returns the connection that keeps a grant alive, and the last wait that blocked this connection. This wait may be over.
    pub(crate) fn keeper(&self, at: LockRef<'_>, fence: Fence) -> Option<(u64, Option<RequestId>)> {
        let client = self.session_client(at, fence)?;
        Some((client, self.connections.blocked(client)))
    }
}
