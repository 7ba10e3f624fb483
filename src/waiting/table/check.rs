//! Invariants between the parts of the table. The models in `tests` check them after each step, a debug build of the module while the
//! table is small.

use std::collections::BTreeSet;

use super::entry::LockEntry;
use super::lock_id::LockId;
use super::outgoing::Notice;
use super::replication::Awaited;
use super::waiter::{Phase, Waiter};
use super::{Earlier, WaitTable};

impl<C: Copy> WaitTable<C> {
    /// Compares every index with the data that it indexes, also in tables of earlier times as a primary.
    pub(crate) fn check(&self) {
        self.check_this();
        for Earlier { table, .. } in &self.earlier {
            assert!(table.outgoing.is_empty() && table.earlier.is_empty());
            table.check_this();
        }
        let told = |id: &LockId| {
            self.outgoing.iter().any(|notice| matches!(notice, Notice::Wanted(other) if other == id))
        };
        let mut entries = self.locks.entries.iter();
        assert!(entries.all(|(id, entry)| !entry.wanted || told(id)), "the holders are to be told");
    }

    fn check_this(&self) {
        for (id, entry) in self.locks.entries.iter() {
            entry.check();
            self.check_queue(id, entry);
            self.check_records(id, entry);
        }
        self.locks.timers.check(self.locks.entries.iter().map(|(id, entry)| (id, entry.timers)));
        self.check_waiters();
        self.check_held();
        self.check_connections();
        self.check_timeouts();
        self.check_replication();
    }

    /// Whether the table is so small that a check costs little.
    pub(crate) fn is_small(&self) -> bool {
        let is_small = self.waiters.by_request.len() <= 30 && self.locks.entries.len() <= 30;
        is_small && self.earlier.iter().all(|earlier| earlier.table.is_small())
    }

    fn check_queue(&self, id: &LockId, entry: &LockEntry) {
        for request in entry.queue.iter() {
            let waiter = self.waiters.get(request).filter(|waiter| waiter.phase == Phase::Queued);
            let waits = waiter.is_some_and(|waiter| waiter.locks.names().any(|at| id.is(at)));
            assert!(waits, "{request:?} is in the queue of {id:?}");
        }
        entry.queue.check();
    }

    fn check_records(&self, id: &LockId, entry: &LockEntry) {
        for record in entry.grants.iter() {
            if let Some(session) = record.session.as_ref().filter(|session| !session.over) {
                assert!(self.connections.has_session(session.client, id, record.fence), "{id:?} {session:?}");
            }
            for hold in record.pending.iter() {
                let waiter = self.waiters.get(hold.request).filter(|waiter| waiter.phase.is_granted());
                let mut locks = waiter.into_iter().flat_map(|waiter| waiter.locks.all());
                let has_grant = locks.any(|lock| lock.id == *id && lock.fence() == Some(record.fence));
                assert!(has_grant, "{id:?} {hold:?}");
            }
            if record.synced.as_ref().is_some_and(|synced| synced.unconfirmed.is_some()) {
                let renewal = Awaited::Renewal(id.clone(), record.fence);
                assert!(self.replication.iter().any(|awaited| *awaited == renewal), "{renewal:?}");
            }
        }
    }

    /// A lock is noted as held only while somebody waits for it.
    fn check_held(&self) {
        self.locks.held.check(self.locks.entries.held());
        assert!(self.locks.entries.held().all(|(_, id)| self.locks.lock(id.to_ref()).waiters() > 0));
    }

    /// Each waiter that is in a queue is in the queues of all its locks, and in the indexes by owner.
    fn check_waiters(&self) {
        let is_queued = |waiter: &Waiter<C>| waiter.phase == Phase::Queued;
        let (mut queued, mut places, mut several) = (0, 0, 0);
        for (request, waiter) in self.waiters.by_request.iter().filter(|(_, waiter)| is_queued(waiter)) {
            queued += 1;
            let owner = &waiter.ask.owner;
            let mut locks = waiter.locks.names();
            assert!(
                locks.all(|at| self.locks.lock(at).queue.iter().any(|other| other == *request)),
                "{request:?}"
            );
            assert!(self.waiters.owners.perhaps(owner).any(|other| other == *request), "{request:?}");
            several += usize::from(waiter.locks.are_several());
            if waiter.channel().is_some() {
                let mut known = self.waiters.owners.perhaps_places(
                    owner,
                    waiter.locks.names(),
                    waiter.locks.are_several(),
                );
                assert!(known.any(|other| other == *request), "{request:?}");
                places += 1;
            }
        }
        assert_eq!(self.waiters.owners.counts(), (queued, places, several));
    }

    fn check_connections(&self) {
        let records = self.locks.entries.iter().flat_map(|(_, entry)| entry.grants.sessions());
        assert_eq!(self.connections.sessions(), records.filter(|session| !session.over).count());
        let places = || self.waiters.by_request.iter().filter(|(_, waiter)| waiter.channel().is_some());
        assert!(places().all(|(request, waiter)| self.connections.has_place(waiter.client_id, *request)));
        assert_eq!(self.connections.places(), places().count());
        self.connections.check();
    }

    fn check_timeouts(&self) {
        let waiters = self.waiters.by_request.iter();
        let timeouts: BTreeSet<_> =
            waiters.filter_map(|(request, waiter)| Some((waiter.ends()?, *request))).collect();
        assert!(self.waiters.timers.timeouts().eq(&timeouts), "{timeouts:?}");
        assert!(self.waiters.timers.tries().all(|request| self.waiters.get_queued(*request).is_some()));
    }

    fn check_replication(&self) {
        self.replication.check();
        for awaited in self.replication.iter() {
            let is_awaited = match awaited {
                Awaited::Answer(request) => {
                    let phase = self.waiters.phase(*request);
                    matches!(phase, Some(Phase::Unconfirmed(_)))
                }
                Awaited::Renewal(id, fence) => self.locks.lock(id.to_ref()).awaits_renewal(*fence),
            };
            assert!(is_awaited, "{awaited:?}");
        }
        for (request, waiter) in &self.waiters.by_request {
            let mut awaited = self.replication.iter();
            let is_unconfirmed = matches!(waiter.phase, Phase::Unconfirmed(_));
            assert!(
                !is_unconfirmed || awaited.any(|awaited| *awaited == Awaited::Answer(*request)),
                "{request:?}"
            );
        }
    }
}
