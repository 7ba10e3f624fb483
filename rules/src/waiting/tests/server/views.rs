//! Views of the small server's state.

use std::collections::BTreeSet;

use super::{AT, Conn, Lock, Queued, QueuedRequest, Rules, Server, at};
use crate::lock::{AcquireRequest, Deadline, Fence, Grant, Held, Millis, Owner};
use crate::waiting::{self, GraceLeft, RequestId};

impl Server {
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
    pub(crate) fn confirmed(&self, now: Millis) -> Vec<Held<'_>> {
        let confirmed = |held| match self.table.get(at(0)) {
            Some(lock) => lock.relied_on(held, now),
            None => Some(held),
        };
        self.holders(now).into_iter().filter_map(confirmed).collect()
    }

    pub(crate) fn shown(&mut self, _: Rules, now: Millis) -> Vec<(Fence, Deadline)> {
        self.confirmed(now).iter().map(|held| (held.grant.fence(), held.deadline)).collect()
    }

    pub(crate) fn given(&self, lock: Lock) -> BTreeSet<(Fence, RequestId)> {
        self.table.given_grants(at(lock))
    }

    pub(crate) fn is_unclaimed(&self, lock: Lock, fence: Fence) -> bool {
        self.given(lock).iter().any(|(given, _)| *given == fence)
    }

    pub(crate) fn is_unconfirmed(&self, fence: Fence) -> bool {
        self.table.is_unconfirmed(at(0), fence)
    }

    pub(crate) fn earlier(&self) -> usize {
        self.table.earlier.len()
    }

    pub(crate) fn unsent(&self) -> usize {
        self.table.outgoing.iter().count()
    }

    pub(crate) fn has_answers(&self) -> bool {
        self.table.has_answered()
    }

    pub(crate) fn check(&self) {
        self.table.check();
    }

    pub(crate) fn is_unsettled(&self) -> bool {
        self.table.is_unsettled(at(0))
    }

    pub(crate) fn queued(&self) -> Vec<Queued> {
        self.asks().into_iter().map(|asked| asked.by).collect()
    }

    pub(crate) fn next_in(&self, lock: Lock) -> Option<Queued> {
        let head = self.table.get(at(lock))?.head()?;
        Some(self.queued_by(head, &self.table.ask(head).owner))
    }

    pub(crate) fn asks(&self) -> Vec<QueuedRequest> {
        self.asks_of(0)
    }

    pub(crate) fn asks_of(&self, lock: Lock) -> Vec<QueuedRequest> {
        let queue = self.table.requests_of(at(lock)).into_iter();
        let asked = |(request, ask): (RequestId, AcquireRequest<'static>)| {
            let AcquireRequest { owner, room, slot, .. } = ask;
            QueuedRequest { request, by: self.queued_by(request, &owner), owner, room, slot }
        };
        queue.map(asked).collect()
    }

    fn queued_by(&self, request: RequestId, owner: &Owner<'static>) -> Queued {
        match self.blocked.get(&request) {
            Some(blocked) => Queued::Blocked(blocked.conn),
            None => Queued::Notified(owner.clone()),
        }
    }

    pub(crate) fn session(&self, fence: Fence) -> Option<Conn> {
        self.session_of(0, fence)
    }

    /// Returns the connection that keeps a grant of a lock alive.
    pub(crate) fn session_of(&self, lock: Lock, fence: Fence) -> Option<Conn> {
        let client = self.table.keeper(at(lock), fence)?;
        (0..).zip(&self.conns).find(|(_, conn)| conn.id == client).map(|(number, _)| number)
    }

    /// Returns when the session of the grant with this fence is to be renewed.
    pub(crate) fn renews_at(&self, fence: Fence) -> Option<Millis> {
        self.table.renews_at(AT, fence)
    }

    /// Whether nothing is left in the table.
    pub(crate) fn is_empty(&self) -> bool {
        self.table.is_empty() && self.table.waiters.is_empty() && self.blocked.is_empty()
    }

    pub(crate) fn is_synced(&self, lock: Lock, fence: Fence) -> bool {
        self.table.get(at(lock)).is_some_and(|lock| lock.is_synced(fence))
    }

    pub(crate) fn next_due(&self) -> Option<Millis> {
        let closes = self.conns.iter().any(|conn| conn.vanished || conn.doomed);
        let frees = self.blocked.values().any(|blocked| blocked.done);
        let confirms = self.table.is_to_confirm(&self.acks_in_order());
        if closes || frees || confirms || self.table.has_answered() { Some(0) } else { self.table.next_due() }
    }

    pub(crate) fn longest_held(&mut self, rules: Rules, now: Millis) -> Millis {
        waiting::longest_held(&mut self.turn(rules, now), now)
    }

    pub(crate) fn grace_left(&mut self, rules: Rules, now: Millis) -> GraceLeft {
        self.turn(rules, now).grace_left()
    }
}
