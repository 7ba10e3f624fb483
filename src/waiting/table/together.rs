//! Requests for several locks at once: one place in the queue of each, with one number. A request is looked at when the lock that keeps
//! it waiting may do so no more (as a clause of a SAT solver watches one literal), so that it costs nothing whenever another of
//! its locks changes.

use std::collections::BTreeSet;

use super::queue::RequestId;
use super::waiter::{Phase, RequestedLock, RequestedLocks};
use super::{LockId, LockRef, WaitTable};
use crate::lock::{AcquireRequest, Millis, Owner};

impl<C: Copy> WaitTable<C> {
    /// Whether that waiter waits for several locks. Then it is to be tried, where this lock has kept it waiting.
    pub(crate) fn try_soon(&mut self, at: LockRef<'_>, request: RequestId) -> bool {
        let Some(waiter) = self.waiters.get(&request) else { return false };
        let RequestedLocks::Several { locks, stuck } = &waiter.locks else { return false };
        if waiter.phase == Phase::Queued && locks.get(*stuck).is_some_and(|lock| lock.id.is(at)) {
            self.timers.try_soon(request);
        }
        true
    }

    /// The next one to be tried, and all its locks.
    pub(crate) fn next_try(&mut self) -> Option<(RequestId, Vec<LockId>)> {
        loop {
            let request = self.timers.take_try()?;
            if let Some(found) = self.with_locks(request) {
                return Some(found);
            }
        }
    }

    /// Sets aside who is to be tried, while one of them is; and whether one of its locks was to be looked at anyway.
    pub(crate) fn set_tries_aside(&mut self, request: RequestId, now: Millis) -> (BTreeSet<RequestId>, bool) {
        let waiter = self.waiters.get(&request);
        let mut locks = waiter.into_iter().flat_map(|waiter| waiter.locks.all());
        let is_due = locks.any(|lock| self.is_overdue(&lock.id, now));
        (self.timers.set_tries_aside(), is_due)
    }

    fn with_locks(&self, request: RequestId) -> Option<(RequestId, Vec<LockId>)> {
        let locks = &self.waiters.get(&request)?.locks;
        Some((request, locks.all().iter().map(|lock| lock.id.clone()).collect()))
    }

    /// The request whose time was up first, and all its locks, where it is to be tried.
    pub(crate) fn overdue_try(&mut self, now: Millis) -> Option<(RequestId, Vec<LockId>)> {
        let request = self.timers.first_timed_out(now)?;
        if self.timers.cancel_try(request) { self.with_locks(request) } else { None }
    }

    /// A waiter could not be tried: its locks are looked at then.
    pub(crate) fn look_at_all(&mut self, ids: &[LockId], time: Millis) {
        for id in ids {
            self.look_by(id.to_ref(), time);
        }
    }

    /// What a waiter asks for that is being tried; none where it is in no queue any more.
    pub(crate) fn take_try(&mut self, request: RequestId) -> Option<AcquireRequest<'static>> {
        self.timers.cancel_try(request);
        let waiter = self.waiters.get(&request).filter(|waiter| waiter.phase == Phase::Queued)?;
        Some(waiter.ask.clone())
    }

    /// The lock of that number keeps it waiting.
    pub(crate) fn stuck_at(&mut self, request: RequestId, number: usize) {
        let waiter = self.waiters.get_mut(&request);
        if let Some(RequestedLocks::Several { stuck, .. }) = waiter.map(|waiter| &mut waiter.locks) {
            *stuck = number;
        }
    }

    /// The owner for whom a lock is reserved when it is free, since it is next here and waits for others too.
    pub(crate) fn reserved_for(&self, at: LockRef<'_>) -> Option<Owner<'static>> {
        let next = self.lock(at).head().and_then(|head| self.waiters.get(&head));
        next.filter(|waiter| waiter.locks.are_several()).map(|waiter| waiter.ask.owner.clone())
    }

    /// The last place that an owner has taken for exactly those locks, and its connection.
    pub(crate) fn place_for(
        &self,
        all: &[LockRef<'_>],
        several: bool,
        owner: &Owner<'static>,
    ) -> Option<(RequestId, u64)> {
        let named: BTreeSet<_> = all.iter().map(|at| (at.db, at.key)).collect();
        let is_named = |lock: &RequestedLock| named.contains(&(lock.id.db, lock.id.key.as_ref()));
        let requests = self.owners.perhaps_places(owner, all.iter().copied(), several);
        let mut waiters = requests.filter_map(|request| Some((request, self.waiters.get(&request)?)));
        waiters.find_map(|(request, waiter)| {
            let locks = waiter.locks.all();
            let same = locks.len() == named.len() && locks.iter().all(is_named);
            let alike = same && waiter.locks.are_several() == several && waiter.ask.owner == *owner;
            alike.then_some((request, waiter.client_id))
        })
    }
}
