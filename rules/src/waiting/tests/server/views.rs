//! Views of the small server's state: who holds its locks, who waits, and what work is left.

use std::collections::BTreeSet;

use super::{AT, Conn, Lock, Queued, QueuedRequest, Rules, Server, ServerOf, at, time};
use crate::lock::{AcquireRequest, Deadline, Fence, Grant, Held, Millis, Owner};
use crate::waiting::{self, GraceLeft, RequestId};

impl<T> ServerOf<T> {
    /// Returns the grants of the first lock whose leases have not ended, the oldest first.
    pub(crate) fn holders(&self, now: Millis) -> Vec<Held<'_>> {
        self.holders_of(0, now)
    }

    /// Returns the grants of a lock whose leases have not ended.
    pub(crate) fn holders_of(&self, lock: Lock, now: Millis) -> Vec<Held<'_>> {
        let Some((value, until)) = self.locks[lock].as_ref().filter(|(_, until)| Deadline::At(now) <= *until)
        else {
            return Vec::new();
        };
        value.alive(*until, now).collect()
    }

    /// Returns all grants, even lapsed grants that nobody has looked at.
    pub(crate) fn all_held(&self) -> Vec<Held<'_>> {
        self.all_held_of(0)
    }

    /// Returns all grants of a lock, even lapsed grants.
    pub(crate) fn all_held_of(&self, lock: Lock) -> Vec<Held<'_>> {
        self.locks[lock].iter().flat_map(|(value, until)| value.all(*until)).collect()
    }

    /// Returns the fence of an owner's grant of a lock, if its lease has not ended.
    pub(crate) fn fence_of(&self, lock: Lock, owner: &Owner<'_>, now: Millis) -> Option<Fence> {
        let held = self.holders_of(lock, now).into_iter();
        held.map(|held| held.grant).find(|grant| grant.owner() == *owner).map(Grant::fence)
    }

    /// Returns the oldest grant whose lease has not ended.
    pub(crate) fn held(&self, now: Millis) -> Option<Held<'_>> {
        self.holders(now).first().copied()
    }

    /// Returns the connections of blocked clients that the server has not freed yet.
    pub(crate) fn blocked(&self) -> Vec<Conn> {
        self.blocked.values().filter(|blocked| !blocked.gone).map(|blocked| blocked.conn).collect()
    }

    /// Returns the number of blocked clients that the server has not freed yet, including clients that are gone.
    pub(crate) fn unfreed(&self) -> usize {
        self.blocked.len()
    }
}

impl Server {
    /// Returns for how many ms this server grants nothing new, and makes no lease longer.
    pub(crate) fn grace_left(&mut self, rules: Rules, now: Millis) -> GraceLeft {
        self.turn(rules, now).grace_left()
    }

    /// Returns the grants, with the leases that replicas have confirmed.
    pub(crate) fn confirmed(&self, now: Millis) -> Vec<Held<'_>> {
        let holders = self.holders(now).into_iter();
        holders.filter_map(|held| self.table.locks.lock(AT).confirmed(held, now)).collect()
    }

    /// Returns the grants that `LOCK.INFO` shows, and the ends of their leases.
    pub(crate) fn shown(&mut self, rules: Rules, now: Millis) -> Vec<(Fence, Deadline)> {
        let lock = self.locks[0].clone().filter(|(_, until)| Deadline::At(now) <= *until);
        let (value, until) =
            lock.as_ref().map_or((None, Deadline::Never), |(value, until)| (Some(value), *until));
        let (count, shown) =
            waiting::shown(&mut self.turn(rules, now), AT, value, until, time(now), usize::MAX);
        assert_eq!(count, shown.len());
        shown.iter().map(|holder| (holder.grant.fence(), holder.deadline)).collect()
    }

    /// Whether a waiter is still to be told of the grant with this fence, or has to claim it.
    pub(crate) fn is_unclaimed(&self, lock: Lock, fence: Fence) -> bool {
        self.given(lock).iter().any(|(given, _)| *given == fence)
    }

    /// Returns the grants of a lock of which waiters are still to be told, or which they have to claim.
    pub(crate) fn given(&self, lock: Lock) -> BTreeSet<(Fence, RequestId)> {
        self.table.given_grants(at(lock))
    }

    /// Whether a waiter is to be told of this grant when replicas have confirmed it.
    pub(crate) fn is_unconfirmed(&self, fence: Fence) -> bool {
        self.table.is_unconfirmed(AT, fence)
    }

    /// Returns how many tables are left from the server's earlier times as a primary.
    pub(crate) fn earlier(&self) -> usize {
        self.table.earlier()
    }

    /// Whether there are answers or messages to be sent.
    pub(crate) fn has_answers(&self) -> bool {
        self.table.has_answered()
    }

    /// Whether nothing is left in the table.
    pub(crate) fn is_empty(&self) -> bool {
        self.table.locks.is_empty() && self.table.waiters.is_empty() && self.blocked.is_empty()
    }

    /// Checks all indexes of the table against the data that they index.
    pub(crate) fn check(&self) {
        self.table.check();
    }

    /// Whether the next look at the lock will correct something: a waiter or a session is gone, or a session's grant is to be given back.
    pub(crate) fn is_unsettled(&self) -> bool {
        self.table.is_unsettled(AT)
    }

    /// Returns the waiters in the queue, in order of arrival.
    pub(crate) fn queued(&self) -> Vec<Queued> {
        self.asks().into_iter().map(|asked| asked.by).collect()
    }

    /// Returns the next waiter for a lock: a waiter for an upgrade, or else the first in the queue.
    pub(crate) fn next_in(&self, lock: Lock) -> Option<Queued> {
        self.table.head(at(lock)).map(|(request, ask)| self.queued_by(request, &ask.owner))
    }

    /// Returns the waiters in the queue, and their requests.
    pub(crate) fn asks(&self) -> Vec<QueuedRequest> {
        self.asks_of(0)
    }

    /// Returns the waiters in the queue of a lock, and their requests.
    pub(crate) fn asks_of(&self, lock: Lock) -> Vec<QueuedRequest> {
        let queue = self.table.requests_of(at(lock)).into_iter();
        let asked = |(request, ask): (RequestId, AcquireRequest<'static>)| {
            let AcquireRequest { owner, room, slot, .. } = ask;
            QueuedRequest { by: self.queued_by(request, &owner), owner, room, slot }
        };
        queue.map(asked).collect()
    }

    fn queued_by(&self, request: RequestId, owner: &Owner<'static>) -> Queued {
        match self.blocked.get(&request) {
            Some(blocked) => Queued::Blocked(blocked.conn),
            None => Queued::Notified(owner.clone()),
        }
    }

    /// Returns the connection that keeps the grant with this fence alive.
    pub(crate) fn session(&self, fence: Fence) -> Option<Conn> {
        self.session_of(0, fence)
    }

    /// Returns the connection that keeps a grant of a lock alive.
    pub(crate) fn session_of(&self, lock: Lock, fence: Fence) -> Option<Conn> {
        let session = self.table.session(at(lock), fence).filter(|session| !session.over)?;
        (0..).zip(&self.conns).find(|(_, conn)| conn.id == session.client).map(|(number, _)| number)
    }

    /// Returns when the session of the grant with this fence is to be renewed.
    pub(crate) fn renews_at(&self, fence: Fence) -> Option<Millis> {
        let session = self.table.session(AT, fence).filter(|session| !session.over)?;
        Some(session.renew_at)
    }

    /// Returns when the server has to do something by itself; 0 means now.
    pub(crate) fn next_due(&self) -> Option<Millis> {
        let closes = self.conns.iter().any(|conn| conn.vanished || conn.doomed);
        let frees = self.blocked.values().any(|blocked| blocked.done);
        let mut acks = self.acks();
        acks.sort_unstable_by(|one, other| other.cmp(one));
        let confirms = self.table.is_to_confirm(&acks);
        if closes || frees || confirms || self.table.has_answered() { Some(0) } else { self.table.next_due() }
    }
}
