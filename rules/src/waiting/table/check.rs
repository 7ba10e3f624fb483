//! Checks of the invariants between the parts of the table. The models in `tests` make these checks after each step, and a debug build of
//! the module makes them while the table is small.

use std::collections::BTreeSet;

use super::entry::LockEntry;
use super::lock_id::LockId;
use super::outgoing::Notice;
use super::timers::LockTimers;
use super::waiter::Phase;
use super::{Earlier, WaitTable};

impl<C: Copy> WaitTable<C> {
    /// Compares every index with the data that it indexes, in this table, and in the tables that were in use before this server was demoted
    /// (`Earlier`).
    pub fn check(&self) {
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

    /// Computes all indexes of this table anew, and compares them.
    fn check_this(&self) {
        let (mut indexed, mut waits, mut queues) = (Self::new(), BTreeSet::new(), BTreeSet::new());
        for (request, waiter) in self.waiters.range(..) {
            indexed.waits().index(request, waiter);
            let locks = waiter.locks.all().iter().filter(|_| waiter.phase == Phase::Queued);
            waits.extend(locks.map(|lock| (&lock.id, request)));
        }
        for (id, entry) in self.locks.entries.iter() {
            entry.check();
            self.check_pending(id, entry);
            queues.extend(entry.queue.iter().map(|request| (id, request)));
            indexed.locks.timers.lanes.write(id, LockTimers::new(), entry.timers);
            entry.grants.iter().for_each(|record| indexed.sessions().index(id, record));
        }
        for (since, id) in self.locks.entries.held() {
            indexed.locks.held.note(&mut None, Some(since), id);
            assert!(self.locks.lock(id.to_ref()).waiters() > 0, "{id:?} is noted, and nobody waits");
        }
        assert_eq!(queues, waits);
        assert_eq!(self.waiters.owners, indexed.waiters.owners);
        assert_eq!(self.waiters.timers.timeouts, indexed.waiters.timers.timeouts);
        assert!(self.waiters.timers.tries().all(|request| self.waiters.get_queued(*request).is_some()));
        assert_eq!(self.locks.held, indexed.locks.held);
        assert_eq!(self.locks.timers.lanes, indexed.locks.timers.lanes);
        self.connections.check(&indexed.connections);
        self.replication.check(&indexed.replication);
    }

    /// Whether the table is so small that a check costs little.
    pub fn is_small(&self) -> bool {
        let is_small = self.waiters.range(..).take(31).count() <= 30 && self.locks.entries.len() <= 30;
        is_small && self.earlier.iter().all(|earlier| earlier.table.is_small())
    }

    /// Checks that each pending hold (one that its waiter may not know of yet) belongs to a waiter that has been granted the lock.
    fn check_pending(&self, id: &LockId, entry: &LockEntry) {
        let holds =
            entry.grants.iter().flat_map(|record| record.pending.iter().map(|hold| (record.fence, hold)));
        for (fence, hold) in holds {
            let waiter = self.waiters.get(hold.request).filter(|waiter| waiter.phase.is_granted());
            let mut locks = waiter.into_iter().flat_map(|waiter| waiter.locks.all());
            let has_grant = locks.any(|lock| lock.id == *id && lock.fence() == Some(fence));
            assert!(has_grant, "{id:?} {hold:?}");
        }
    }
}
