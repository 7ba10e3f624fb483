//! Places (waiters that are not blocked, and have to claim their grants). Also holds (acquires within a grant) of which the owner has been
//! told: the module no longer takes such a hold back when a waiter goes away.

use super::queue::RequestId;
use super::waiter::{Arrival, Phase, RequestedLocks};
use super::{LockRef, WaitTable};
use crate::lock::{Fence, Owner};
use crate::waiting::GivenUp;

impl<C: Copy> WaitTable<C> {
    /// Keeps an owner's place when the owner asks again for the same locks. The options of the new request replace the old ones.
    pub(crate) fn keep_place(&mut self, request: RequestId, arrival: Arrival<C>) {
        let locks = self.waits().change(request, |waiter| {
            debug_assert!(waiter.phase == Phase::Queued, "{request:?} has a place");
            waiter.end_by(arrival.gives_up());
            let Arrival { ask, way, client_id, timeout, .. } = arrival;
            (waiter.ask, waiter.way, waiter.client_id, waiter.timeout) = (ask, way, client_id, timeout);
            waiter.locks.are_several().then(|| waiter.locks.clone())
        });
        let Some(locks) = locks.flatten() else { return };
        // If the request went ahead of the other waiters, as an upgrade, it no longer does. The module soon tries to grant the request all
        // its locks, and then decides again whether the request goes ahead.
        self.waiters.timers.try_soon(request);
        for at in locks.names() {
            self.locks.change(at, |entry| entry.withdraw_upgrade(request));
        }
    }

    /// Gives up the place that the owner took last in the lock's queue. If the owner has no place in this queue, gives up a place of the
    /// owner that was granted the lock with the fence `held`, and has not claimed this grant.
    pub(crate) fn leave_queue(
        &mut self,
        at: LockRef<'_>,
        owner: &Owner<'static>,
        held: Option<Fence>,
    ) -> GivenUp {
        let entry = self.locks.lock(at);
        let queued = entry.queue.all_of(owner).rev().find(|request| self.waiters.is_place(*request));
        let is_its =
            |request: &RequestId| self.waiters.get(*request).is_some_and(|waiter| waiter.ask.owner == *owner);
        let granted = || entry.grants.unclaimed(held?).find(is_its);
        let Some(request) = queued.or_else(granted) else { return GivenUp::default() };
        let locks = self.waiters.get(request).into_iter().flat_map(|waiter| waiter.locks.all());
        let others = locks.filter(|lock| lock.got.is_some() && !lock.id.is(at));
        let others = others.map(|lock| lock.id.clone()).collect();
        self.give_up(request);
        GivenUp { any: true, others }
    }

    /// Drops a place whose owner has been sent a `start` message. From this message, the owner knows of the grant, and need not claim it.
    /// So the grant does not end when the connection of the place closes.
    pub(crate) fn start(&mut self, request: RequestId) {
        let Some(waiter) = self.waiters.get(request) else { return };
        let locks = waiter.locks.clone();
        for lock in locks.all() {
            if let Some(fence) = lock.fence() {
                self.told_of(lock.id.to_ref(), fence, request);
                self.listeners().knows(lock.id.to_ref(), fence);
            }
        }
        self.drop_waiter(request);
    }

    /// Notes that a waiter has been told of its grant. If the waiter shares a hold with other waiters of its owner (`ONCE`), the module
    /// does not take this hold back when the other waiters go away.
    fn told_of(&mut self, at: LockRef<'_>, fence: Fence, request: RequestId) {
        if self.locks.lock(at).grants.hold(fence, request).is_some_and(|hold| !hold.own) {
            self.share_hold(at, fence);
        }
    }

    /// Treats a grant as claimed by all places of its owner that have not claimed it yet, and drops these places, because the owner has
    /// been told of the grant in another way.
    fn claim(&mut self, at: LockRef<'_>, fence: Fence) {
        let unclaimed: Vec<RequestId> = self.locks.lock(at).grants.unclaimed(fence).collect();
        if unclaimed.is_empty() {
            return;
        }
        for request in unclaimed {
            let locks = self.waiters.get(request).map(|waiter| waiter.locks.clone());
            self.drop_waiter(request);
            // A place for several locks gets all of them together, so the owner now also knows of its grants of the other locks.
            for lock in locks.iter().filter(|locks| locks.are_several()).flat_map(RequestedLocks::all) {
                if let Some(fence) = lock.fence() {
                    self.listeners().knows(lock.id.to_ref(), fence);
                }
            }
        }
        self.listeners().knows(at, fence);
    }

    /// Notes that the owner has been told that it has this grant. So all places of the owner count as having claimed the grant, and the
    /// module does not take back the holds of blocked waiters, even if these waiters go away before they are told.
    pub(crate) fn share_hold(&mut self, at: LockRef<'_>, fence: Fence) {
        self.claim(at, fence);
        self.locks
            .change(at, |entry| entry.grants.change(fence, |record| record.pending.share_with_blocked()));
    }

    /// Notes that the owner knows of at least one of the `holds` holds of this grant. If blocked waiters that are still to be told have all
    /// of these holds, the module does not take back the hold of the first of these waiters, even if that waiter goes away.
    pub(crate) fn share_one_hold(&mut self, at: LockRef<'_>, fence: Fence, holds: u32) {
        self.claim(at, fence);
        let mut given =
            self.locks.lock(at).grants.given(fence).filter(|hold| hold.own).map(|hold| hold.request);
        let (first, more) = (given.next(), given.count());
        if let Some(first) = first.filter(|_| more + 1 >= holds as usize) {
            self.locks.change(at, |entry| entry.share_hold_with(fence, first));
        }
    }

    /// Drops what the table still has of a waiter, when the server is done with its blocked client, or after the message that ends a place.
    /// If the waiter has not been told of its grant, its hold is taken back.
    pub(crate) fn forget(&mut self, request: RequestId) {
        let Some(waiter) = self.waiters.get(request) else { return };
        // The waiter has not been told, for whatever reason, and never will be.
        if !matches!(waiter.phase, Phase::Told(_)) {
            self.depart(request);
        } else if waiter.phase.is_granted() {
            let confirmed = waiter.confirm.is_some();
            for lock in waiter.locks.clone().all() {
                let Some(fence) = lock.fence() else { continue };
                let at = lock.id.to_ref();
                self.told_of(at, fence, request);
                if confirmed {
                    self.listeners().knows(at, fence);
                }
            }
        }
        self.drop_waiter(request);
    }
}
