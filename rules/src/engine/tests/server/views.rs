//! Views of the small server's state.

use std::collections::BTreeSet;

use super::{AT, Conn, Lock, Queued, QueuedRequest, Rules, Server, at};
use crate::encoding::Effect;
use crate::lock::{Deadline, Fence, Held, Millis};
use crate::waiting::{GraceLeft, RequestId};

impl Server {
    pub(crate) fn confirmed(&self, now: Millis) -> Vec<Held<'_>> {
        self.holders(now)
    }

    pub(crate) fn shown(&mut self, _: Rules, now: Millis) -> Vec<(Fence, Deadline)> {
        self.holders(now).iter().map(|held| (held.grant.fence(), held.deadline)).collect()
    }

    pub(crate) fn given(&self, lock: Lock) -> BTreeSet<(Fence, RequestId)> {
        self.table.given_grants(at(lock))
    }

    pub(crate) fn is_unconfirmed(&self, _: Fence) -> bool {
        false
    }

    pub(crate) fn earlier(&self) -> usize {
        0
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

    pub(crate) fn asks(&self) -> Vec<QueuedRequest> {
        let queue = self.table.requests_of(at(0)).into_iter();
        let asked = |(request, ask): (RequestId, crate::lock::AcquireRequest<'static>)| QueuedRequest {
            by: Queued::Blocked(self.blocked[&request].conn),
            owner: ask.owner,
            room: ask.room,
            slot: ask.slot,
        };
        queue.map(asked).collect()
    }

    pub(crate) fn session(&self, _: Fence) -> Option<Conn> {
        None
    }

    pub(crate) fn next_due(&self) -> Option<Millis> {
        let closes = self.conns.iter().any(|conn| conn.vanished || conn.doomed);
        let frees = self.blocked.values().any(|blocked| blocked.done);
        if closes || frees || self.table.has_answered() { Some(0) } else { self.table.next_due() }
    }

    pub(crate) fn demote(&mut self) {
        panic!("no failover")
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

    pub(crate) fn grace_left(&mut self, _: Rules, _: Millis) -> GraceLeft {
        GraceLeft::default()
    }
}
