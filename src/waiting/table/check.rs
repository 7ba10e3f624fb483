//! What has to hold between the parts of the table. The models check it after each step, and a module that is built for tests does while
//! the table is small.

use std::collections::BTreeSet;

use super::WaitTable;
use super::entry::LockEntry;
use super::lock_id::LockId;
use super::outgoing::Notice;
use super::replication::What;
use super::waiter::{Phase, Waiter};

impl<C: Copy> WaitTable<C> {
    /// Compares every index with what it indexes.
    pub(crate) fn check(&self) {
        for (id, entry) in self.entries.iter() {
            entry.check();
            self.timers.check(&entry.timers, id);
            self.check_queue(id, entry);
            self.check_records(id, entry);
        }
        let timers = self.entries.iter().map(|(_, entry)| entry.timers.len());
        assert_eq!(self.timers.locks(), timers.sum::<usize>(), "each timer is that of a lock");
        self.check_waiters();
        self.check_connections();
        self.check_timeouts();
        self.check_replication();
    }

    /// Whether the table is so small that a check costs little.
    pub(crate) fn is_small(&self) -> bool {
        self.waiters.len() <= 30 && self.entries.len() <= 30
    }

    fn check_queue(&self, id: &LockId, entry: &LockEntry) {
        for request in entry.queue.iter() {
            let waiter = self.waiters.get(&request).filter(|waiter| waiter.phase == Phase::Queued);
            let waits = waiter.is_some_and(|waiter| waiter.locks.names().any(|at| id.is(at)));
            assert!(waits, "{request:?} is in the queue of {id:?}");
        }
        let told = |notice: &Notice| matches!(notice, Notice::Wanted(other) if other == id);
        assert!(!entry.wanted || self.outgoing.iter().any(told), "the holders of {id:?} are to be told");
    }

    fn check_records(&self, id: &LockId, entry: &LockEntry) {
        for record in entry.grants.iter() {
            if let Some(session) = record.session.as_ref().filter(|session| !session.over) {
                assert!(self.connections.has_session(session.client, id, record.fence), "{id:?} {session:?}");
            }
            for hold in record.untold.iter() {
                let waiter = self.waiters.get(&hold.request).filter(|waiter| waiter.phase.is_granted());
                let mut locks = waiter.into_iter().flat_map(|waiter| waiter.locks.all());
                let has_grant = locks.any(|lock| lock.id == *id && lock.fence() == Some(record.fence));
                assert!(has_grant, "{id:?} {hold:?}");
            }
            let pending = record.synced.as_ref().and_then(|synced| synced.pending);
            let is_renewal = |request| {
                let what = self.replication.pending.get(&request).map(|pending| &pending.what);
                matches!(what, Some(What::Renewal { id: other, fence, .. }) if (other, *fence) == (id, record.fence))
            };
            assert!(pending.is_none_or(is_renewal), "{id:?} {record:?}");
        }
    }

    /// Each waiter that is in queues is in those of all its locks, and in the indexes by owner.
    fn check_waiters(&self) {
        let is_queued = |waiter: &&Waiter<C>| waiter.phase == Phase::Queued;
        assert_eq!(self.waiters.values().filter(is_queued).count(), self.queued);
        let (mut places, mut several) = (0, 0);
        for (request, waiter) in self.waiters.iter().filter(|(_, waiter)| is_queued(waiter)) {
            let owner = &waiter.ask.owner;
            let mut locks = waiter.locks.names();
            assert!(locks.all(|at| self.lock(at).queue.iter().any(|other| other == *request)), "{request:?}");
            assert!(self.owners.perhaps(owner).any(|other| other == *request), "{request:?}");
            several += usize::from(waiter.locks.are_several());
            if waiter.channel().is_some() {
                let mut known =
                    self.owners.perhaps_places(owner, waiter.locks.names(), waiter.locks.are_several());
                assert!(known.any(|other| other == *request), "{request:?}");
                places += 1;
            }
        }
        assert_eq!(self.owners.lens(), (self.queued, places, several));
    }

    fn check_connections(&self) {
        let records = self.entries.iter().flat_map(|(_, entry)| entry.grants.sessions());
        assert_eq!(self.connections.sessions(), records.filter(|session| !session.over).count());
        let places = || self.waiters.iter().filter(|(_, waiter)| waiter.channel().is_some());
        assert!(places().all(|(request, waiter)| self.connections.has_place(waiter.client_id, *request)));
        assert_eq!(self.connections.places(), places().count());
        self.connections.check();
    }

    fn check_timeouts(&self) {
        let waiters = self.waiters.iter().filter_map(|(request, waiter)| Some((waiter.ends?, *request)));
        let pending = self.replication.pending.iter().map(|(request, pending)| (pending.ends, *request));
        let timeouts: BTreeSet<_> = waiters.chain(pending).collect();
        assert!(self.timers.timeouts().eq(&timeouts), "{timeouts:?}");
        let may_be_tried =
            |request| self.waiters.get(request).is_some_and(|waiter| waiter.phase == Phase::Queued);
        assert!(self.timers.tries().all(may_be_tried));
    }

    fn check_replication(&self) {
        self.replication.check();
        for (request, pending) in &self.replication.pending {
            let is_awaited = match &pending.what {
                What::Answer => self
                    .waiters
                    .get(request)
                    .is_some_and(|waiter| matches!(waiter.phase, Phase::Unconfirmed(_))),
                What::Renewal { id, fence, .. } => self
                    .lock(id.to_ref())
                    .synced(*fence)
                    .is_some_and(|synced| synced.pending == Some(*request)),
            };
            assert!(is_awaited, "{request:?} {pending:?}");
        }
    }
}
