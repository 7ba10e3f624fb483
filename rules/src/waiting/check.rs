//! Computes all indexes of the table anew, and compares them. Debug builds do this for small tables after each step.

#![allow(clippy::panic, reason = "a wrong index is a bug")]

use std::collections::BTreeSet;

use super::connections::{Connections, Dependent};
use super::locks::Locks;
use super::table::Table;
use super::waiter::{Queued, Stage};

impl<C: Copy> Table<C> {
    pub fn check_if_small(&self) {
        if self.waiters.len() + self.locks.as_ref().map_or(0, Locks::len) <= 50 {
            self.check();
        }
    }

    pub(crate) fn check(&self) {
        assert!(self.after.is_empty());
        let (mut wakes, mut timeouts, mut queued) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        let mut renewals = BTreeSet::new();
        let (mut connections, mut current) = (Connections::new(), BTreeSet::new());
        for (id, lock) in self.locks.iter().flat_map(Locks::iter) {
            assert!(!lock.is_empty());
            lock.queue.check();
            lock.check();
            wakes.extend(lock.other_wake().map(|wake| (wake, id.clone())));
            queued.extend(lock.queue.iter());
            renewals.extend(lock.renew.map(|time| (time.get(), id.clone())));
            for record in lock.records() {
                current.extend(record.pending.iter().map(|hold| hold.request));
                let is_known = |request| self.waiters.contains_key(request);
                assert!(record.pending.iter().all(|hold| is_known(&hold.request)), "{record:?}");
                if let Some(session) = record.session.filter(|session| !session.closed) {
                    let row = Dependent::Session(id.clone(), record.fence);
                    connections.add(session.connection, row, id.to_ref().weight());
                }
            }
        }
        for (request, waiter) in &self.waiters {
            timeouts.extend(waiter.time_up.map(|time_up| (time_up.get(), *request)));
            // A client that waited before a demotion is in no queue any more.
            assert!(!queued.contains(request) || waiter.stage == Stage::Queued);
            // A demotion drops the index, but the places go one by one.
            let is_current = queued.contains(request) || current.contains(request);
            let is_known = self.connections.places.contains(&(waiter.connection, *request));
            if waiter.channel.is_some() && (is_current || is_known) {
                connections.add(waiter.connection, Dependent::Place(*request), waiter.locks.weight());
            }
        }
        assert_eq!((&wakes, &timeouts, &renewals), (&self.wakes, &self.timeouts, &self.renewals));
        let locks = self.locks.iter().flat_map(Locks::iter);
        let held: BTreeSet<_> =
            locks.filter_map(|(id, lock)| Some((lock.held_since.0?, id.clone()))).collect();
        assert_eq!(held, self.held_since);
        connections.closed = self.connections.closed.clone();
        connections.blocked = self.connections.blocked.clone();
        let mut waiting = Queued::new();
        let queued = self.waiters.iter().filter(|(_, waiter)| waiter.stage == Stage::Queued);
        queued.for_each(|(request, waiter)| waiting.add(*request, waiter));
        assert!(waiting.has_same(&self.queued));
        assert_eq!(connections, self.connections);
        let in_earlier = self.earlier.iter().flat_map(Locks::iter).flat_map(|(_, lock)| lock.queue.iter());
        assert!(in_earlier.into_iter().all(|request| self.waiters.contains_key(&request)));
        assert!(self.tries.iter().all(|request| self.stage(*request) == Some(Stage::Queued)));
    }
}
