//! All waiters, by the numbers of their requests, and their timers.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU64;
use std::ops::RangeBounds;

use super::lock_id::{LockId, LockRef};
use super::outgoing::Outgoing;
use super::owners::Owners;
use super::queue::RequestId;
use super::request_timers::RequestTimers;
use super::waiter::{Answer, Arrival, Phase, RequestedLock, RequestedLocks, WaitKind, Waiter};
use crate::lock::{AcquireRequest, Millis, Owner};

/// All waiters, from when each begins to wait until the server has freed it, which is some time after it left its queues. `C` is a blocked
/// client, as the server knows it.
#[cfg_attr(test, derive(Clone, Debug, PartialEq, Eq, Hash))]
pub(crate) struct Waiters<C> {
    pub(super) by_request: BTreeMap<RequestId, Waiter<C>>,
    /// The waiters in queues.
    pub(super) owners: Owners,
    pub(crate) timers: RequestTimers,
    pub(super) last_request: NonZeroU64,
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

    /// The number of a request that comes now. It is never used twice.
    pub(crate) fn next_request(&mut self) -> RequestId {
        self.last_request = self.last_request.saturating_add(1);
        RequestId(self.last_request)
    }

    /// The number of the latest request.
    pub(super) fn last_request(&self) -> RequestId {
        RequestId(self.last_request)
    }

    /// The number of waiters in queues.
    pub(crate) fn queued(&self) -> usize {
        self.owners.len()
    }

    pub(super) fn get(&self, request: RequestId) -> Option<&Waiter<C>> {
        self.by_request.get(&request)
    }

    pub(super) fn get_mut(&mut self, request: RequestId) -> Option<&mut Waiter<C>> {
        self.by_request.get_mut(&request)
    }

    pub(super) fn phase(&self, request: RequestId) -> Option<Phase> {
        self.get(request).map(|waiter| waiter.phase)
    }

    /// A waiter, if it is in its queues.
    pub(super) fn get_queued(&self, request: RequestId) -> Option<&Waiter<C>> {
        self.get(request).filter(|waiter| waiter.phase == Phase::Queued)
    }

    pub(super) fn range(
        &self,
        requests: impl RangeBounds<RequestId>,
    ) -> impl Iterator<Item = (RequestId, &Waiter<C>)> {
        self.by_request.range(requests).map(|(request, waiter)| (*request, waiter))
    }

    /// Adds a waiter that is in the queues of all its locks.
    pub(super) fn join(&mut self, request: RequestId, waiter: Waiter<C>) {
        let (owner, locks) = (&waiter.ask.owner, &waiter.locks);
        self.owners.join(owner, request, locks, waiter.channel().is_some());
        self.insert(request, waiter);
    }

    /// Adds a waiter, which may be in no queue.
    pub(super) fn insert(&mut self, request: RequestId, waiter: Waiter<C>) {
        self.timers.set_timeout(request, waiter.ends());
        self.by_request.insert(request, waiter);
    }

    /// Moves a waiter out of its queues, to its next phase. Returns whether it was in them.
    pub(super) fn leave(&mut self, request: RequestId, next: Phase) -> bool {
        let queued = self.by_request.get_mut(&request).filter(|waiter| waiter.phase == Phase::Queued);
        let Some(waiter) = queued else { return false };
        waiter.phase = next;
        self.timers.cancel_timeout(request, waiter.set_ends(None));
        self.timers.cancel_try(request);
        self.owners.leave(&waiter.ask.owner, request, &waiter.locks, waiter.channel().is_some());
        true
    }

    /// Moves a waiter that has left its queues to its next phase, and cancels its timeout.
    pub(super) fn go_on(&mut self, request: RequestId, next: Phase) {
        if let Some(waiter) = self.by_request.get_mut(&request) {
            waiter.phase = next;
            self.timers.cancel_timeout(request, waiter.set_ends(None));
        }
    }

    /// Drops and returns a waiter that is in no queue.
    pub(super) fn remove(&mut self, request: RequestId) -> Option<Waiter<C>> {
        let waiter = self.by_request.remove(&request)?;
        debug_assert!(waiter.phase != Phase::Queued);
        self.timers.cancel_timeout(request, waiter.ends());
        Some(waiter)
    }

    /// Updates a place whose owner asks again for the same locks: the place stays, and the new request's options replace the old ones.
    /// Returns the connection on which the owner asked before, and the locks.
    pub(super) fn ask_again(
        &mut self,
        request: RequestId,
        arrival: Arrival<C>,
    ) -> Option<(u64, &RequestedLocks)> {
        let waiter = self.by_request.get_mut(&request).filter(|waiter| waiter.phase == Phase::Queued);
        debug_assert!(waiter.is_some(), "{request:?} has a place");
        let (waiter, ends) = (waiter?, arrival.gives_up());
        self.timers.cancel_timeout(request, waiter.set_ends(ends));
        self.timers.set_timeout(request, ends);
        if waiter.locks.are_several() {
            // The place may be able to have all its locks now.
            self.timers.try_soon(request);
        }
        let Arrival { ask, way, client_id, timeout, .. } = arrival;
        let earlier = std::mem::replace(&mut waiter.client_id, client_id);
        (waiter.ask, waiter.way, waiter.timeout) = (ask, way, timeout);
        Some((earlier, &waiter.locks))
    }

    /// Sets the time by which the owner has to claim its grant, or replicas have to confirm the grant.
    pub(super) fn end_by(&mut self, request: RequestId, ends: Millis) {
        if let Some(waiter) = self.by_request.get_mut(&request) {
            waiter.set_ends(Some(ends));
            self.timers.set_timeout(request, Some(ends));
        }
    }

    /// Whether this request is a place.
    pub(crate) fn is_place(&self, request: RequestId) -> bool {
        self.get(request).is_some_and(|waiter| waiter.channel().is_some())
    }

    /// The last place that an owner has taken for exactly these locks, and its connection.
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

    /// Whether a waiter waits for several locks. If so, and this lock has kept it waiting, the waiter is to be tried.
    pub(crate) fn defer_to_try(&mut self, at: LockRef<'_>, request: RequestId) -> bool {
        let Some(waiter) = self.by_request.get(&request) else { return false };
        let RequestedLocks::Several { locks, stuck } = &waiter.locks else { return false };
        if waiter.phase == Phase::Queued && locks.get(*stuck).is_some_and(|lock| lock.id.is(at)) {
            self.timers.try_soon(request);
        }
        true
    }

    /// Takes the next request to be tried. Returns it with its locks.
    pub(crate) fn next_try(&mut self) -> Option<(RequestId, Vec<LockId>)> {
        loop {
            let request = self.timers.take_try()?;
            // The request may have ended while the requests were set aside.
            if self.get(request).is_some() {
                return Some((request, self.locks_of(request)));
            }
        }
    }

    /// Takes the request that timed out first, if it was to be tried. Returns it with its locks.
    pub(crate) fn overdue_try(&mut self, now: Millis) -> Option<(RequestId, Vec<LockId>)> {
        let request = self.timers.first_timed_out(now)?;
        self.timers.cancel_try(request).then(|| (request, self.locks_of(request)))
    }

    /// Notes that a waiter is being tried. Returns its request; `None` if it has left its queues.
    pub(crate) fn take_try(&mut self, request: RequestId) -> Option<AcquireRequest<'static>> {
        self.timers.cancel_try(request);
        self.get_queued(request).map(|waiter| waiter.ask.clone())
    }

    /// The locks that a waiter waits for.
    pub(crate) fn locks_of(&self, request: RequestId) -> Vec<LockId> {
        let locks = self.get(request).into_iter().flat_map(|waiter| waiter.locks.all());
        locks.map(|lock| lock.id.clone()).collect()
    }

    /// Notes the index of the lock that keeps the waiter waiting.
    pub(crate) fn stuck_at(&mut self, request: RequestId, number: usize) {
        let waiter = self.by_request.get_mut(&request);
        match waiter.map(|waiter| &mut waiter.locks) {
            Some(RequestedLocks::Several { stuck, .. }) => *stuck = number,
            other => debug_assert!(false, "{other:?} is being tried"),
        }
    }

    /// Sets `unblocked` if the waiter is still to be told. Returns what to send: a reply to a blocked client, or a message to a place.
    pub(super) fn answer_due(&mut self, request: RequestId) -> Option<Outgoing<C>> {
        let waiter = self.by_request.get_mut(&request)?;
        // A waiter that an operator has sent away in this step has been told already.
        waiter.unblocked = matches!(waiter.phase, Phase::Answered(_));
        Some(match waiter.way {
            WaitKind::Blocked(client) => Outgoing::Client(client),
            WaitKind::Notified(_) => Outgoing::Place(request),
        })
    }

    /// The connection of a waiter that has been told of its grant, and whether it was told because its answer was due.
    pub(crate) fn told_client(&self, request: RequestId) -> Option<(u64, bool)> {
        let waiter = self.get(request)?;
        matches!(waiter.phase, Phase::Told(Answer::Granted { .. }))
            .then_some((waiter.client_id, waiter.unblocked))
    }

    /// The waits of an owner; `None` if there are more than `most`.
    pub(crate) fn waits_of(&self, owner: &Owner<'_>, most: usize) -> Option<Vec<RequestId>> {
        let mut perhaps = self.owners.perhaps(owner);
        let is_its = |request: &RequestId| {
            self.get(*request).is_some_and(|waiter| waiter.ask.owner.borrowed() == owner.borrowed())
        };
        let waits = perhaps.by_ref().take(most).filter(is_its).collect();
        perhaps.next().is_none().then_some(waits)
    }

    /// Whether anybody waits for several locks.
    pub(crate) fn has_several(&self) -> bool {
        self.owners.has_several()
    }
}
