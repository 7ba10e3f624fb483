//! Computes all indexes of the table anew, and compares them; and checks what else is always true between steps. Debug builds do this for small
//! tables after each step.

#![allow(clippy::panic, reason = "a wrong index is a bug")]

use std::collections::BTreeSet;

use super::connections::{Connections, Dependent};
use super::lock_state::WaiterNews;
use super::locks::Locks;
use super::notices::Notice;
use super::replication::Awaited;
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
        let mut awaited = BTreeSet::new();
        let (mut answers, mut news) = (BTreeSet::new(), BTreeSet::new());
        for notice in self.outgoing.iter() {
            match notice {
                Notice::Waiter(request) => _ = answers.insert(*request),
                Notice::Wanted(id, fence) => _ = news.insert((id, *fence)),
                Notice::Message(_) => (),
            }
        }
        for (id, lock) in self.locks.iter().flat_map(Locks::iter) {
            assert!(!lock.is_empty());
            lock.queue.check();
            lock.check();
            assert!(lock.wake.is_some() || !lock.recheck && lock.first_due().is_none(), "{lock:?}");
            wakes.extend(lock.other_wake().map(|wake| (wake, id.clone())));
            queued.extend(lock.queue.iter());
            renewals.extend(lock.renew.map(|time| (time.get(), id.clone())));
            for record in lock.records() {
                current.extend(record.pending.iter().map(|hold| hold.request));
                let got = |request| {
                    let locks = self.waiters.get(request).into_iter().flat_map(|waiter| waiter.locks.all());
                    locks.filter(|lock| lock.id == *id).find_map(|lock| lock.fence())
                };
                assert!(
                    record.pending.iter().all(|hold| got(&hold.request) == Some(record.fence)),
                    "{record:?}"
                );
                let is_soon = record.listener.as_ref().is_some_and(|its| its.told == WaiterNews::Soon);
                assert!(!is_soon || news.contains(&(id, record.fence)), "{record:?}");
                awaited.extend(record.renewal.iter().map(|_| Awaited::Renewal(id.clone(), record.fence)));
                match record.session {
                    Some(session) if !session.closed => {
                        let row = Dependent::Session(id.clone(), record.fence);
                        connections.add(session.connection, row, id.to_ref().weight());
                    }
                    Some(session) => {
                        assert!(session.wake_at == 0 || self.has_successor(record), "{record:?}")
                    }
                    None => (),
                }
            }
        }
        for (request, waiter) in &self.waiters {
            timeouts.extend(waiter.time_up.map(|time_up| (time_up.get(), *request)));
            let is_answered = matches!(waiter.stage, Stage::Answered(_)) && !waiter.unblocked;
            assert!(!is_answered || answers.contains(request), "{request:?}");
            let awaits = waiter.awaits().filter(|_| !self.queued.is_earlier(*request));
            awaited.extend(awaits.map(|_| Awaited::Answer(*request)));
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
        assert!(self.replication.awaited().eq(&awaited));
        let is_known = |connection: &u64| self.connections.weights.contains_key(connection);
        assert!(self.connections.closed.iter().chain(self.connections.blocked.keys()).all(is_known));
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
