//! What tests see of the table, and checks of its indexes.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};
use std::num::NonZeroU64;

use crate::engine::Table;
use crate::engine::table::Phase;
use crate::lock::{AcquireRequest, Fence};
use crate::waiting::{LockRef, RequestId};

impl<C: Copy> Table<C> {
    pub(crate) fn given_grants(&self, at: LockRef<'_>) -> BTreeSet<(Fence, RequestId)> {
        self.get(at)
            .into_iter()
            .flat_map(|lock| &lock.pending)
            .map(|hold| (hold.fence, hold.request))
            .collect()
    }

    pub(crate) fn is_unsettled(&self, at: LockRef<'_>) -> bool {
        self.get(at).is_some_and(|lock| lock.pending.iter().any(|hold| hold.lost))
    }

    pub(crate) fn requests_of(&self, at: LockRef<'_>) -> Vec<(RequestId, AcquireRequest<'static>)> {
        let requests = self.get(at).into_iter().flat_map(|lock| lock.queue.iter());
        requests.map(|request| (request, self.waiters[&request].ask.clone())).collect()
    }

    pub(crate) fn has_answered(&self) -> bool {
        !self.outgoing.is_empty()
    }

    pub(crate) fn clients(&self) -> BTreeSet<u64> {
        let sent = self.sent.iter().map(|(client, _)| *client);
        self.waiters.values().map(|waiter| waiter.client_id).chain(sent).collect()
    }

    pub(crate) fn check(&self) {
        let (mut wakes, mut timeouts, mut queued) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        for (id, lock) in self.locks.iter().flatten() {
            assert!(!lock.is_empty());
            lock.queue.check();
            wakes.extend(lock.wake.map(|wake| (wake, id.clone())));
            queued.extend(lock.queue.iter());
            for hold in &lock.pending {
                assert!(self.waiters.contains_key(&hold.request) || hold.lost, "{hold:?}");
            }
        }
        for (request, waiter) in &self.waiters {
            timeouts.extend(waiter.ends.map(|ends| (ends, *request)));
            assert_eq!(waiter.phase == Phase::Queued, queued.contains(request));
        }
        assert_eq!((&wakes, &timeouts), (&self.wakes, &self.timeouts));
    }
}

impl Table<RequestId> {
    pub(crate) fn renumber_requests(&mut self) -> BTreeMap<RequestId, RequestId> {
        let lost = self.locks.iter().flatten().flat_map(|(_, lock)| &lock.pending).map(|hold| hold.request);
        let all: BTreeSet<RequestId> = self.waiters.keys().copied().chain(lost).collect();
        self.last_request = NonZeroU64::MIN;
        let new: BTreeMap<_, _> = all.into_iter().map(|request| (request, self.next_request())).collect();
        let waiters = std::mem::take(&mut self.waiters);
        for (request, mut waiter) in waiters {
            waiter.client = Some(new[&request]);
            self.waiters.insert(new[&request], waiter);
        }
        self.timeouts = self.timeouts.iter().map(|(ends, request)| (*ends, new[request])).collect();
        self.outgoing.retain(|request| new.contains_key(request));
        self.outgoing.iter_mut().for_each(|request| *request = new[request]);
        self.sent.iter_mut().for_each(|sent| sent.1 = new[&sent.1]);
        for (_, lock) in self.locks.iter_mut().flatten() {
            let queued: Vec<RequestId> = lock.queue.iter().collect();
            lock.queue = crate::waiting::table::Queue::new();
            for request in queued {
                lock.queue.join(new[&request], self.waiters[&new[&request]].ask.owner.clone());
            }
            lock.pending.iter_mut().for_each(|hold| hold.request = new[&hold.request]);
            if let Some(upgrade) = &mut lock.upgrade {
                upgrade.1 = upgrade.1.iter().map(|request| new[request]).collect();
            }
        }
        new
    }

    pub(crate) fn renumber_clients(&mut self, ids: &BTreeMap<u64, u64>) {
        for waiter in self.waiters.values_mut() {
            waiter.client_id = ids[&waiter.client_id];
        }
        self.sent.iter_mut().for_each(|sent| sent.0 = ids[&sent.0]);
    }
}

impl<C: Hash> Hash for Table<C> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        for (id, lock) in self.locks.iter().flatten() {
            id.hash(state);
            lock.hash(state);
        }
        self.waiters.hash(state);
        (&self.outgoing, &self.sent, self.last_request, self.next_kind).hash(state);
    }
}
