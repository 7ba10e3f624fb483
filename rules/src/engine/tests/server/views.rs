//! Views of the small server's state.

use std::collections::BTreeSet;

use super::{AT, Conn, Lock, Queued, QueuedRequest, Rules, Server, at};
use crate::encoding::Effect;
use crate::lock::{AcquireRequest, Deadline, Fence, Held, Millis, Owner};
use crate::waiting::{GraceLeft, RequestId};

impl Server {
    pub(crate) fn confirmed(&self, now: Millis) -> Vec<Held<'_>> {
        let confirmed = |held| match self.table.get(at(0)) {
            Some(lock) => lock.confirmed(held, now),
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

    pub(crate) fn session(&self, fence: Fence) -> Option<Conn> {
        let client = self.table.session_client(at(0), fence)?;
        (0..).zip(&self.conns).find(|(_, conn)| conn.id == client).map(|(number, _)| number)
    }

    pub(crate) fn next_due(&self) -> Option<Millis> {
        let closes = self.conns.iter().any(|conn| conn.vanished || conn.doomed);
        let frees = self.blocked.values().any(|blocked| blocked.done);
        let mut acks = self.acks();
        acks.sort_unstable_by(|one, other| other.cmp(one));
        let confirms = self.table.is_to_confirm(&acks);
        if closes || frees || confirms || self.table.has_answered() { Some(0) } else { self.table.next_due() }
    }

    pub(crate) fn demote(&mut self) {
        self.table.demoted();
    }

    /// An operator shortens the lease to the end of this millisecond.
    pub(crate) fn cut(&mut self, end: Millis) {
        if let Some((_, deadline)) =
            self.locks[0].as_mut().filter(|(_, deadline)| *deadline > Deadline::At(end))
        {
            *deadline = Deadline::At(end);
            self.effects.push((0, Effect::Lease(*deadline)));
            self.table.touched(AT);
        }
    }

    pub(crate) fn grace_left(&mut self, rules: Rules, now: Millis) -> GraceLeft {
        self.turn(rules, now).grace_left()
    }

    pub(crate) fn delete(&mut self, lock: Lock) {
        self.locks[lock] = None;
        self.table.touched(at(lock));
    }

    pub(crate) fn overwrite_one(&mut self, lock: Lock) {
        self.locks[lock] = None;
        self.table.overwritten(at(lock));
    }
}
