//! All waiters, by the numbers of their requests, and the timers of the requests. `Waits` is the only way to change a waiter.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU64;
use std::ops::RangeBounds;

use super::connections::Connections;
use super::lock_id::{LockId, LockRef};
use super::outgoing::Outgoing;
use super::owners::Owners;
use super::queue::RequestId;
use super::replication::{Awaited, Replication};
use super::request_timers::RequestTimers;
use super::waiter::{Answer, Phase, RequestedLock, RequestedLocks, WaitKind, Waiter, WaiterKeys};
use crate::lock::{AcquireRequest, Millis, Owner};

/// All waiters. A waiter stays here for some time after it has left its queues: a blocked client until the server is done with it, and a
/// place until it has been answered, and any grant of it claimed. `C` is the server's handle of a blocked client.
#[cfg_attr(test, derive(Clone, Debug, PartialEq, Eq, Hash))]
pub struct Waiters<C> {
    by_request: BTreeMap<RequestId, Waiter<C>>,
    /// The waiters in queues, by owner.
    pub(super) owners: Owners,
    pub(crate) timers: RequestTimers,
    pub(super) last_request: NonZeroU64,
}

/// The waiters, lent for changes together with the parts of the table that have an index of the waiters.
pub(crate) struct Waits<'a, C> {
    by_request: &'a mut BTreeMap<RequestId, Waiter<C>>,
    indexes: Indexes<'a>,
}

struct Indexes<'a> {
    owners: &'a mut Owners,
    timers: &'a mut RequestTimers,
    connections: &'a mut Connections,
    replication: &'a mut Replication,
}

impl Indexes<'_> {
    /// Writes the difference between the keys of a waiter before and after a change.
    #[inline(always)]
    fn write<C>(&mut self, request: RequestId, waiter: &Waiter<C>, from: WaiterKeys, to: WaiterKeys) {
        self.timers.timeouts.set(&request, from.ends, to.ends);
        self.replication.set(|| Awaited::Answer(request), from.awaits, to.awaits);
        if from.place != to.place {
            self.connections.set_place(request, waiter.locks.weight(), from.place, to.place);
        }
        match (from.queued, to.queued) {
            (false, true) => self.owners.set(request, waiter, true),
            (true, false) => {
                self.owners.set(request, waiter, false);
                self.timers.cancel_try(request);
            }
            _ => (),
        }
    }
}

impl<'a, C: Copy> Waits<'a, C> {
    #[inline(always)]
    pub(super) fn new(
        waiters: &'a mut Waiters<C>,
        connections: &'a mut Connections,
        replication: &'a mut Replication,
    ) -> Self {
        let Waiters { by_request, owners, timers, .. } = waiters;
        Self { by_request, indexes: Indexes { owners, timers, connections, replication } }
    }

    pub(super) fn add(mut self, request: RequestId, waiter: Waiter<C>) {
        self.index(request, &waiter);
        self.by_request.insert(request, waiter);
    }

    pub(super) fn index(&mut self, request: RequestId, waiter: &Waiter<C>) {
        self.indexes.write(request, waiter, WaiterKeys::default(), waiter.keys());
    }

    /// Changes a waiter. No other method changes fields on which an index depends.
    #[inline(always)]
    pub(super) fn change<R>(
        mut self,
        request: RequestId,
        body: impl FnOnce(&mut Waiter<C>) -> R,
    ) -> Option<R> {
        let waiter = self.by_request.get_mut(&request)?;
        let from = waiter.keys();
        let result = body(waiter);
        self.indexes.write(request, waiter, from, waiter.keys());
        Some(result)
    }

    /// Changes a waiter without comparing its keys. So `body` must change only fields on which no index depends.
    #[inline(always)]
    pub(super) fn edit<R>(self, request: RequestId, body: impl FnOnce(&mut Waiter<C>) -> R) -> Option<R> {
        let waiter = self.by_request.get_mut(&request)?;
        let keys = waiter.keys();
        let result = body(waiter);
        debug_assert!(waiter.keys() == keys, "{request:?}");
        Some(result)
    }

    pub(super) fn remove(mut self, request: RequestId) -> Option<Waiter<C>> {
        let waiter = self.by_request.remove(&request)?;
        self.indexes.write(request, &waiter, waiter.keys(), WaiterKeys::default());
        Some(waiter)
    }

    pub(super) fn go_on(self, request: RequestId, next: Phase) {
        self.change(request, |waiter| waiter.go_on(next));
    }

    /// Notes the index, among the waiter's locks, of the lock that keeps the waiter waiting.
    pub(crate) fn stuck_at(self, request: RequestId, number: usize) {
        self.edit(request, |waiter| match &mut waiter.locks {
            RequestedLocks::Several { stuck, .. } => *stuck = number,
            RequestedLocks::One(_) => debug_assert!(false, "{request:?} is being tried"),
        });
    }

    /// Sets `unblocked` if the waiter still has to be told. Returns what the module has to send: a reply to a blocked client, or a message
    /// to a place.
    pub(super) fn answer_due(self, request: RequestId) -> Option<Outgoing<C>> {
        self.edit(request, |waiter| {
            // If an operator has sent the waiter away in this step, the waiter has been told already.
            waiter.unblocked = matches!(waiter.phase, Phase::Answered(_));
            match waiter.way {
                WaitKind::Blocked(client) => Outgoing::Client(client),
                WaitKind::Notified(_) => Outgoing::Place(request),
            }
        })
    }
}

impl<C: Copy> Waiters<C> {
    pub(super) const fn new() -> Self {
        Self {
            by_request: BTreeMap::new(),
            owners: Owners::new(),
            timers: RequestTimers::new(),
            last_request: NonZeroU64::MIN,
        }
    }

    /// Returns the number for a request that comes now. No number is used twice.
    pub(crate) fn next_request(&mut self) -> RequestId {
        self.last_request = self.last_request.saturating_add(1);
        RequestId(self.last_request)
    }

    pub(super) fn last_request(&self) -> RequestId {
        RequestId(self.last_request)
    }

    /// Returns the number of waiters in queues.
    pub fn queued(&self) -> usize {
        self.owners.len()
    }

    /// Whether no waiter is left, not even one that has left its queues.
    pub(crate) fn is_empty(&self) -> bool {
        self.by_request.is_empty()
    }

    pub(super) fn get(&self, request: RequestId) -> Option<&Waiter<C>> {
        self.by_request.get(&request)
    }

    pub(super) fn phase(&self, request: RequestId) -> Option<Phase> {
        self.get(request).map(|waiter| waiter.phase)
    }

    /// Returns a waiter, if it is in its queues.
    pub(super) fn get_queued(&self, request: RequestId) -> Option<&Waiter<C>> {
        self.get(request).filter(|waiter| waiter.phase == Phase::Queued)
    }

    pub(super) fn range(
        &self,
        requests: impl RangeBounds<RequestId>,
    ) -> impl Iterator<Item = (RequestId, &Waiter<C>)> {
        self.by_request.range(requests).map(|(request, waiter)| (*request, waiter))
    }

    /// Whether this request is a place: its client is not blocked, and gets a message.
    pub(crate) fn is_place(&self, request: RequestId) -> bool {
        self.get(request).is_some_and(|waiter| waiter.channel().is_some())
    }

    /// Returns the last place that an owner has taken for exactly these locks, and its connection.
    pub(crate) fn place_for(
        &self,
        all: &[LockRef<'_>],
        several: bool,
        owner: &Owner<'static>,
    ) -> Option<(RequestId, u64)> {
        let named: BTreeSet<_> = all.iter().map(|at| (at.db, at.key)).collect();
        let is_named = |lock: &RequestedLock| named.contains(&(lock.id.db, lock.id.key.as_ref()));
        let requests = self.owners.perhaps_places(owner, all.iter().copied(), several);
        let mut waiters = requests.filter_map(|request| Some((request, self.get(request)?)));
        waiters.find_map(|(request, waiter)| {
            let locks = waiter.locks.all();
            let same = locks.len() == named.len() && locks.iter().all(is_named);
            let alike = same && waiter.locks.are_several() == several && waiter.ask.owner == *owner;
            alike.then_some((request, waiter.client_id))
        })
    }

    /// Whether a waiter waits for several locks. If so, a step on this lock alone can't serve the waiter. So, if this lock is the one that
    /// has kept the waiter waiting, notes that a timer has to try to grant the waiter all its locks.
    pub(crate) fn defer_to_try(&mut self, at: LockRef<'_>, request: RequestId) -> bool {
        let Some(waiter) = self.by_request.get(&request) else { return false };
        let RequestedLocks::Several { locks, stuck } = &waiter.locks else { return false };
        if waiter.phase == Phase::Queued && locks.get(*stuck).is_some_and(|lock| lock.id.is(at)) {
            self.timers.try_soon(request);
        }
        true
    }

    /// Takes the next request for which a timer has to try to grant all its locks, and returns it with these locks.
    pub(crate) fn next_try(&mut self) -> Option<(RequestId, Vec<LockId>)> {
        loop {
            let request = self.timers.take_try()?;
            // The request may have ended while it was set aside (see `set_tries_aside`).
            if self.get(request).is_some() {
                return Some((request, self.locks_of(request)));
            }
        }
    }

    /// Takes the request that timed out first, if it had to be tried, and returns it with its locks.
    pub(crate) fn overdue_try(&mut self, now: Millis) -> Option<(RequestId, Vec<LockId>)> {
        let request = self.timers.first_timed_out(now)?;
        self.timers.cancel_try(request).then(|| (request, self.locks_of(request)))
    }

    /// Notes that the module now tries to grant a waiter all its locks. Returns the waiter's request; `None` if the waiter has left its
    /// queues.
    pub(crate) fn take_try(&mut self, request: RequestId) -> Option<AcquireRequest<'static>> {
        self.timers.cancel_try(request);
        self.get_queued(request).map(|waiter| waiter.ask.clone())
    }

    pub(crate) fn locks_of(&self, request: RequestId) -> Vec<LockId> {
        let locks = self.get(request).into_iter().flat_map(|waiter| waiter.locks.all());
        locks.map(|lock| lock.id.clone()).collect()
    }

    /// Returns the connection of a waiter that has been told of its grant, and whether the waiter was told because its answer was due.
    pub(crate) fn told_client(&self, request: RequestId) -> Option<(u64, bool)> {
        let waiter = self.get(request)?;
        matches!(waiter.phase, Phase::Told(Answer::Granted { .. }))
            .then_some((waiter.client_id, waiter.unblocked))
    }

    /// Returns the waits of an owner; `None` if there are more than `most` waits to look at.
    pub(crate) fn waits_of(&self, owner: &Owner<'_>, most: usize) -> Option<Vec<RequestId>> {
        let mut perhaps = self.owners.perhaps(owner);
        let is_its = |request: &RequestId| {
            self.get(*request).is_some_and(|waiter| waiter.ask.owner.borrowed() == owner.borrowed())
        };
        let waits = perhaps.by_ref().take(most).filter(is_its).collect();
        perhaps.next().is_none().then_some(waits)
    }

    pub(crate) fn has_several(&self) -> bool {
        self.owners.has_several()
    }
}

#[cfg(test)]
impl<C> Waiters<C> {
    /// Runs `change` on all waiters. `change` must not change anything on which an index of this part depends.
    pub(super) fn change_all(&mut self, change: impl FnMut(&mut Waiter<C>)) {
        self.by_request.values_mut().for_each(change);
    }

    pub(super) fn renumber_requests(&mut self, new: &BTreeMap<RequestId, RequestId>) {
        let waiters = std::mem::take(&mut self.by_request).into_iter();
        self.by_request = waiters.map(|(request, waiter)| (new[&request], waiter)).collect();
        self.owners.renumber_requests(new);
        self.timers.renumber_requests(new);
    }
}
