//! Access for tests to the table, and checks of its indexes.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};
use std::num::NonZeroU64;

use crate::lock::{AcquireRequest, Fence, Millis};
use crate::waiting::Table;
use crate::waiting::connections::Connections;
use crate::waiting::lock_state::Record;
use crate::waiting::locks::Locks;
use crate::waiting::notices::{Notice, Notices};
use crate::waiting::replication::Offset;
use crate::waiting::waiter::{Queued, Stage};
use crate::waiting::{LockRef, RequestId};

impl<C: Copy> Table<C> {
    fn records_at(&self, at: LockRef<'_>) -> impl Iterator<Item = &Record> {
        self.get(at).into_iter().flat_map(|lock| lock.records())
    }

    pub(crate) fn given_grants(&self, at: LockRef<'_>) -> BTreeSet<(Fence, RequestId)> {
        let pending = |record: &Record| record.pending.clone().into_iter().map(|hold| hold.request);
        let given =
            |record: &Record| pending(record).map(|request| (record.fence, request)).collect::<Vec<_>>();
        self.records_at(at).flat_map(given).collect()
    }

    pub(crate) fn is_unsettled(&self, at: LockRef<'_>) -> bool {
        let is_over = |record: &Record| {
            record.session.is_some_and(|its| its.closed || self.connections.is_closed(its.connection))
        };
        self.records_at(at).any(|record| record.to_take_back > 0 || is_over(record))
    }

    pub(crate) fn is_unconfirmed(&self, at: LockRef<'_>, fence: Fence) -> bool {
        let pending = self.get(at).and_then(|lock| lock.record(fence)).map(|record| record.pending.clone());
        let unconfirmed = |request| matches!(self.stage(request), Some(Stage::Unconfirmed(_)));
        pending.into_iter().flatten().any(|hold| unconfirmed(hold.request))
    }

    pub(crate) fn is_to_confirm(&self, acks: &[Offset]) -> bool {
        self.replication.is_to_ask() || self.replication.next_confirmed(acks).is_some()
    }

    pub(crate) fn renews_at(&self, at: LockRef<'_>, fence: Fence) -> Option<Millis> {
        self.keeper(at, fence)?;
        Some(self.get(at)?.record(fence)?.session?.renew_at)
    }

    pub(crate) fn ask(&self, request: RequestId) -> &AcquireRequest<'static> {
        &self.waiters[&request].ask
    }

    pub(crate) fn requests_of(&self, at: LockRef<'_>) -> Vec<(RequestId, AcquireRequest<'static>)> {
        let requests = self.get(at).into_iter().flat_map(|lock| lock.queue.iter());
        requests.map(|request| (request, self.ask(request).clone())).collect()
    }

    pub(crate) fn clients(&self) -> BTreeSet<u64> {
        let sent = self.sent.iter().map(|(client, _)| *client);
        let locks = self.locks.iter().chain(&self.earlier).flat_map(Locks::iter);
        let sessions = locks.flat_map(|(_, lock)| lock.records());
        let sessions = sessions.filter_map(|record| Some(record.session?.connection));
        let waiters = self.waiters.values().map(|waiter| waiter.connection);
        waiters.chain(sent).chain(sessions).chain(self.connections.closed.iter().copied()).collect()
    }
}

impl Table<RequestId> {
    pub(crate) fn renumber_requests(&mut self) -> BTreeMap<RequestId, RequestId> {
        let all: BTreeSet<RequestId> = self.waiters.keys().copied().collect();
        self.last_request = NonZeroU64::MIN;
        let new: BTreeMap<_, _> = all.into_iter().map(|request| (request, self.next_request())).collect();
        let waiters = std::mem::take(&mut self.waiters);
        for (request, mut waiter) in waiters {
            waiter.client = waiter.client.map(|_| new[&request]);
            if waiter.time_up.is_none() || waiter.stage != Stage::Queued {
                // The rules do not use this, so states that differ only in it are the same.
                waiter.since = 0;
            }
            self.waiters.insert(new[&request], waiter);
        }
        self.replication.renumber_requests(&new);
        self.last_at_once = i64::MIN;
        for (time, id) in self.wakes.clone().into_iter().take_while(|(time, _)| *time < 0) {
            self.last_at_once += 1;
            self.wakes.remove(&(time, id.clone()));
            self.wakes.insert((self.last_at_once, id.clone()));
            self.locks.as_mut().unwrap().get_mut(id.to_ref()).unwrap().1.wake = Some(self.last_at_once);
        }
        self.timeouts = self.timeouts.iter().map(|(time_up, request)| (*time_up, new[request])).collect();
        self.tries = self.tries.iter().map(|request| new[request]).collect();
        self.last_tried = new.get(&self.last_tried).copied().unwrap_or(RequestId::MIN);
        let places = std::mem::take(&mut self.connections.places).into_iter();
        self.connections.places = places.map(|(client, request)| (client, new[&request])).collect();
        for request in self.connections.blocked.values_mut() {
            *request = new.get(request).copied().unwrap_or(RequestId::MIN);
        }
        let queued = std::mem::replace(&mut self.queued, Queued::new());
        let earlier = new.iter().filter(|(old, _)| queued.is_earlier(**old)).map(|(_, new)| *new).max();
        for (request, waiter) in &self.waiters {
            if waiter.stage == Stage::Queued {
                self.queued.add(*request, waiter);
                if Some(*request) <= earlier {
                    self.queued.demoted(*request);
                }
            }
        }
        let mut outgoing = std::mem::replace(&mut self.outgoing, Notices::new());
        while let Some(mut notice) = outgoing.pop() {
            if let Notice::Waiter(request) = &mut notice {
                let Some(renumbered) = new.get(request) else { continue };
                *request = *renumbered;
            }
            self.outgoing.push(notice);
        }
        self.sent.iter_mut().for_each(|sent| sent.1 = new[&sent.1]);
        for (_, lock) in self.locks.iter_mut().chain(&mut self.earlier).flat_map(Locks::iter_mut) {
            let queued: Vec<RequestId> = lock.queue.iter().collect();
            lock.queue = crate::waiting::queue::Queue::new();
            for request in queued {
                lock.queue.join(new[&request], self.waiters[&new[&request]].ask.owner.clone());
            }
            // A lock that was in the table before a demotion may still have holds whose clients have been told.
            lock.renumber(|record| {
                record.pending.retain_mut(|hold| {
                    new.get(&hold.request).map(|request| hold.request = *request).is_some()
                });
            });
            if let Some(upgrade) = &mut lock.upgrade {
                upgrade.1 = upgrade.1.iter().map(|request| new[request]).collect();
            }
        }
        new
    }

    pub(crate) fn renumber_clients(&mut self, ids: &BTreeMap<u64, u64>) {
        for waiter in self.waiters.values_mut() {
            waiter.connection = ids[&waiter.connection];
        }
        for (_, lock) in self.locks.iter_mut().chain(&mut self.earlier).flat_map(Locks::iter_mut) {
            lock.renumber(|record| {
                record.session.iter_mut().for_each(|session| session.connection = ids[&session.connection]);
            });
        }
        let Connections { sessions, places, weights, closed, blocked } = &mut self.connections;
        *blocked = std::mem::take(blocked).into_iter().map(|(client, it)| (ids[&client], it)).collect();
        *sessions = std::mem::take(sessions)
            .into_iter()
            .map(|(client, id, fence)| (ids[&client], id, fence))
            .collect();
        *places =
            std::mem::take(places).into_iter().map(|(client, request)| (ids[&client], request)).collect();
        *weights = std::mem::take(weights).into_iter().map(|(client, all)| (ids[&client], all)).collect();
        *closed = closed.iter().map(|client| ids[client]).collect();
        self.sent.iter_mut().for_each(|sent| sent.0 = ids[&sent.0]);
    }
}

impl<C: Hash> Hash for Table<C> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        for (id, lock) in self.locks.iter().flat_map(Locks::iter) {
            id.hash(state);
            lock.hash(state);
        }
        self.waiters.hash(state);
        self.connections.hash(state);
        self.replication.hash(state);
        for (id, lock) in self.earlier.iter().flat_map(Locks::iter) {
            (id, lock).hash(state);
        }
        (&self.sweeps, self.paused_until).hash(state);
        (&self.tries, &self.outgoing, &self.sent, self.last_request, self.last_tried, self.next_kind)
            .hash(state);
    }
}
