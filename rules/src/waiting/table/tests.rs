//! Access to the state for the tests of `waiting`, and what makes two states equal.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};

use super::held_since::HeldSince;
use super::outgoing::Notice;
use super::queue::{Queue, RequestId};
use super::shown::Observers;
use super::timers::Lane;
use super::waiter::{Phase, WaitKind};
use super::{LockRef, Offset, WaitTable};
use crate::lock::{AcquireRequest, Fence, Millis};

/// Hash maps have no order, so the entries are hashed in the order of their keys.
impl<C: Hash> Hash for WaitTable<C> {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.locks.entries.iter().collect::<BTreeMap<_, _>>().hash(hasher);
        self.locks.timers.hash(hasher);
        self.locks.sweeps.hash(hasher);
        self.waiters.hash(hasher);
        self.connections.hash(hasher);
        self.outgoing.hash(hasher);
        self.replication.hash(hasher);
        self.earlier.hash(hasher);
    }
}

impl<C: Copy> WaitTable<C> {
    /// Whether the next look at the lock corrects something: a waiter or a session is gone, or a lease is to be given back.
    pub(crate) fn is_unsettled(&self, at: LockRef<'_>) -> bool {
        let entry = self.locks.lock(at);
        entry.has_undeliverable() || entry.has_expired() || self.has_session_over(at)
    }

    /// The queue in order of arrival, with each request.
    pub(crate) fn requests_of(&self, at: LockRef<'_>) -> Vec<(RequestId, AcquireRequest<'static>)> {
        let requests = self.locks.lock(at).queue.iter();
        requests.map(|request| (request, self.waiters.get(request).unwrap().ask.clone())).collect()
    }

    /// The grants of waiters that the server has not freed yet.
    pub(crate) fn given_grants(&self, at: LockRef<'_>) -> BTreeSet<(Fence, RequestId)> {
        let records = self.locks.lock(at).grants.iter();
        records.flat_map(|record| record.pending.iter().map(|hold| (record.fence, hold.request))).collect()
    }

    /// Whether a waiter is to be told of this grant once replicas have confirmed it.
    pub(crate) fn is_unconfirmed(&self, at: LockRef<'_>, fence: Fence) -> bool {
        let mut waiters =
            self.locks.lock(at).grants.given(fence).filter_map(|hold| self.waiters.get(hold.request));
        waiters.any(|waiter| matches!(waiter.phase, Phase::Unconfirmed(_)))
    }

    /// Whether these acknowledgements confirm something, or replicas are still to be asked.
    pub(crate) fn is_to_confirm(&self, acks: &[Offset]) -> bool {
        self.replication.is_to_ask() || self.replication.confirmed(acks).is_some()
    }

    /// Makes offsets relative to `by`. Those from `most` on become equal.
    pub(crate) fn shift_offsets(&mut self, by: Offset, most: Offset) {
        self.for_each_table(|table| table.replication.shift_offsets(by, most));
    }

    /// The tables of earlier times, the earliest first, and this table.
    fn tables(&self) -> impl Iterator<Item = &Self> {
        self.earlier.iter().map(|earlier| &earlier.table).chain([self])
    }

    /// Runs `body` on each table, the earliest first.
    fn for_each_table(&mut self, mut body: impl FnMut(&mut Self)) {
        let mut all = std::mem::take(&mut self.earlier);
        all.iter_mut().for_each(|earlier| body(&mut earlier.table));
        self.earlier = all;
        body(self);
    }

    /// The number of tables of earlier times that are left.
    pub(crate) fn earlier(&self) -> usize {
        self.earlier.len()
    }

    /// The connections that the state knows of.
    pub(crate) fn clients(&self) -> impl Iterator<Item = u64> {
        self.tables().flat_map(Self::clients_of_one)
    }

    fn clients_of_one(&self) -> impl Iterator<Item = u64> {
        let entries = self.locks.entries.values();
        let sessions = entries.flat_map(|entry| entry.grants.sessions()).map(|session| session.client);
        let waiters = self.waiters.range(..).map(|(_, waiter)| waiter.client_id);
        sessions.chain(waiters).chain(self.connections.clients())
    }

    /// Gives the connections new numbers.
    pub(crate) fn renumber_clients(&mut self, ids: &BTreeMap<u64, u64>) {
        self.for_each_table(|table| table.renumber_clients_of_one(ids));
    }

    fn renumber_clients_of_one(&mut self, ids: &BTreeMap<u64, u64>) {
        for entry in self.locks.entries.values_mut() {
            entry.grants.change_all(|record| {
                record.session.iter_mut().for_each(|session| session.client = ids[&session.client]);
            });
        }
        self.waiters.change_all(|waiter| waiter.client_id = ids[&waiter.client_id]);
        self.connections.renumber_clients(ids);
    }
}

impl<C: Copy> WaitTable<C> {
    /// Gives the timers that are due at once the least numbers, in the same order.
    fn renumber_at_once(&mut self) {
        let at_once = Vec::from_iter(std::iter::from_fn(|| self.locks.take_due(Lane::Now, 0)));
        self.locks.timers.restart_numbers();
        at_once.iter().for_each(|id| _ = self.locks.look_by(id.to_ref(), 0));
    }
}

impl WaitTable<RequestId> {
    /// Gives the waiters the least numbers, in the same order, and removes differences that decide nothing, such as when a wait without
    /// limit began.
    pub(crate) fn renumber_requests(&mut self) -> BTreeMap<RequestId, RequestId> {
        let (mut new, mut last) = (BTreeMap::new(), std::num::NonZeroU64::MIN);
        self.for_each_table(|table| {
            table.waiters.last_request = last;
            for request in table.waiters.range(..).map(|(request, _)| request).collect::<Vec<_>>() {
                new.insert(request, table.waiters.next_request());
            }
            last = table.waiters.last_request;
        });
        self.for_each_table(|table| table.renumber_requests_of_one(&new));
        new
    }

    fn renumber_requests_of_one(&mut self, new: &BTreeMap<RequestId, RequestId>) {
        // Only one thing matters: whether the last run was before the renewal of a session.
        let renewals = self
            .locks
            .entries
            .values()
            .flat_map(|entry| entry.grants.sessions())
            .map(|session| session.renew_at);
        let renewals: Vec<Millis> = renewals.collect();
        self.locks.timers.forget_last_run(&renewals);
        // These decide nothing.
        self.observers = Observers::new();
        self.locks.entries.forget_held();
        self.locks.held = HeldSince::new();
        for entry in self.locks.entries.values_mut() {
            let queued: Vec<RequestId> = entry.queue.iter().collect();
            entry.queue = Queue::new();
            for request in queued {
                entry.queue.join(new[&request], self.waiters.get(request).unwrap().ask.owner.clone());
            }
            if let Some(upgrader) = &mut entry.upgrader {
                upgrader.requests = upgrader.requests.iter().map(|request| new[request]).collect();
            }
            entry.grants.change_all(|record| record.pending.renumber_requests(new));
        }
        self.waiters.renumber_requests(new);
        self.renumber_at_once();
        self.connections.renumber_requests(new);
        self.replication.renumber_requests(new);
        self.outgoing = std::mem::take(&mut self.outgoing)
            .into_iter()
            .filter_map(|due| match due {
                Notice::Waiter(request) => new.get(&request).copied().map(Notice::Waiter),
                due => Some(due),
            })
            .collect();
        self.waiters.change_all(|waiter| {
            if let WaitKind::Blocked(client) = &mut waiter.way {
                *client = new[client];
            }
            if waiter.timeout == 0 || waiter.phase != Phase::Queued {
                waiter.since = 0;
            }
        });
    }
}
