//! Waiting without being blocked: a place in the queue, and a grant that is to be claimed.

use super::entry::LockEntry;
use super::outgoing::MessageKind;
use super::queue::RequestId;
use super::waiter::{Answer, Arrival, RequestedLocks, WaitKind};
use super::{AT_ONCE, LockRef, WaitTable};
use crate::lock::{Fence, Millis, Owner};
use crate::waiting::Left;

impl<C: Copy> WaitTable<C> {
    /// The last place that an owner has taken in a queue, and its connection.
    fn place_in_queue(&self, at: LockRef<'_>, owner: &Owner<'static>) -> Option<(RequestId, u64)> {
        let mut requests = self.lock(at).queue.all_of(owner).rev();
        requests.find_map(|request| {
            let waiter = self.waiters.get(&request)?;
            waiter.channel().map(|_| (request, waiter.client_id))
        })
    }

    /// An owner asks again for what it waits for: it keeps its place, on the terms that it names now.
    pub(crate) fn keep_place(&mut self, request: RequestId, arrival: Arrival<C>) {
        let Some(waiter) = self.waiters.get_mut(&request) else { return };
        let (earlier, ends) = (waiter.client_id, arrival.gives_up());
        self.timers.cancel_timeout(request, std::mem::replace(&mut waiter.ends, ends));
        let weight = waiter.locks.weight();
        let Arrival { ask, way, client_id, timeout, .. } = arrival;
        (waiter.ask, waiter.way, waiter.client_id, waiter.timeout) = (ask, way, client_id, timeout);
        if waiter.locks.are_several() {
            let locks = waiter.locks.clone();
            self.ask_anew(request, &locks);
        }
        self.timers.set_timeout(request, ends);
        self.connections.remove_place(earlier, request);
        self.connections.add_place(client_id, request, weight);
    }

    /// A request for several locks may have them now. Whether it waits in front of others is decided then.
    fn ask_anew(&mut self, request: RequestId, locks: &RequestedLocks) {
        self.timers.try_soon(request);
        for lock in locks.all() {
            let at = lock.id.to_ref();
            self.change(at, |entry| entry.withdraw_upgrade(request));
            self.look_by(at, 0);
        }
    }

    /// A waiter has been granted its lock: if it is notified, it has so long to claim it, and hears what becomes of the grant.
    pub(super) fn grant_to_place(&mut self, request: RequestId, now: Millis) {
        let Some(waiter) = self.waiters.get_mut(&request) else { return };
        let WaitKind::Notified(channel) = &waiter.way else { return };
        // After its lease has lapsed, where that is as short: so the lapse is told. Leases may be rounded up by a millisecond.
        let ends = now.saturating_add(waiter.ask.lease).saturating_add(3);
        waiter.ends = Some(ends);
        let (locks, owner, channel) = (waiter.locks.clone(), waiter.ask.owner.clone(), channel.clone());
        self.timers.set_timeout(request, Some(ends));
        for lock in locks.all() {
            let Some(fence) = lock.fence() else { continue };
            self.watch_untold(lock.id.to_ref(), fence, owner.clone(), channel.clone());
        }
    }

    /// The owner of that grant has been told of it: whatever was to be claimed of it is.
    pub(super) fn claim(&mut self, at: LockRef<'_>, fence: Fence) {
        let unclaimed: Vec<RequestId> = self.lock(at).unclaimed(fence).collect();
        if unclaimed.is_empty() {
            return;
        }
        for request in unclaimed {
            let locks = self.waiters.get(&request).map(|waiter| waiter.locks.clone());
            self.drop_waiter(request);
            // Its owner knows of all that it waited for at once.
            for lock in locks.iter().filter(|locks| locks.are_several()).flat_map(RequestedLocks::all) {
                let Some(fence) = lock.fence() else { continue };
                self.change(lock.id.to_ref(), |entry| entry.listener_knows(fence));
                self.tell_wanted(lock.id.to_ref());
            }
        }
        self.change(at, |entry| entry.listener_knows(fence));
        self.tell_wanted(at);
    }

    /// Whether a place may be given a grant that its owner has already: not while its owner, and others, have so many to claim. (One
    /// claim is for all that an owner has been given of a lock.) If not, it is tried again when some of those are claimed.
    pub(crate) fn may_be_given(&mut self, at: LockRef<'_>, request: RequestId, most: u32) -> bool {
        if !self.is_place(request) {
            return true;
        }
        let full = |entry: &mut LockEntry| {
            let full = entry.unclaimed_locks >= most;
            entry.put_off |= full;
            full
        };
        !self.change(at, full).unwrap_or_default()
    }

    fn is_place(&self, request: RequestId) -> bool {
        self.waiters.get(&request).is_some_and(|waiter| waiter.channel().is_some())
    }

    /// An owner gives up its last place in that queue, or what it has not claimed of the grant with that fence.
    pub(crate) fn leave_queue(
        &mut self,
        at: LockRef<'_>,
        owner: &Owner<'static>,
        held: Option<Fence>,
    ) -> Left {
        let queued = self.place_in_queue(at, owner).map(|(request, _)| request);
        let is_its =
            |request: &RequestId| self.waiters.get(request).is_some_and(|waiter| waiter.ask.owner == *owner);
        let granted = || self.lock(at).unclaimed(held?).find(is_its);
        let Some(request) = queued.or_else(granted) else { return Left::default() };
        let locks = self.waiters.get(&request).map(|waiter| waiter.locks.clone());
        let others = locks.iter().flat_map(RequestedLocks::all).filter(|lock| lock.got.is_some());
        let others = others.map(|lock| lock.id.clone()).filter(|id| !id.is(at)).collect();
        self.give_up(request);
        Left { any: true, others }
    }

    /// A place is given up. What it had been granted is taken back; the grant may live on by other holds of its owner. For how many
    /// locks it was.
    pub(crate) fn give_up(&mut self, request: RequestId) -> u32 {
        let Some(waiter) = self.waiters.get(&request) else { return 0 };
        let locks = waiter.locks.all().len() as u32;
        let granted = waiter.phase.is_granted().then(|| waiter.locks.clone());
        self.depart(request);
        self.drop_waiter(request);
        for lock in granted.iter().flat_map(RequestedLocks::all) {
            let (at, fence) = (lock.id.to_ref(), lock.fence());
            let fence = fence.filter(|fence| self.lock(at).unclaimed(*fence).next().is_none());
            if let Some(fence) = fence {
                self.change(at, |entry| entry.listener_knows(fence));
            }
        }
        locks
    }

    /// Whether that is a place whose connection has closed, and which has not been cleared up yet.
    pub(crate) fn is_gone(&self, request: RequestId) -> bool {
        let place = || self.waiters.get(&request).filter(|waiter| waiter.channel().is_some());
        self.connections.has_closed()
            && place().is_some_and(|waiter| self.connections.is_closed(waiter.client_id))
    }

    /// The lock is not this server's any more: those who are notified are told, and nothing that they were granted is ours to
    /// take back. Whether all are told.
    pub(super) fn send_away(&mut self, at: LockRef<'_>) -> bool {
        let places = self.lock(at).queue.iter().filter(|request| self.is_place(*request));
        let queued: Vec<RequestId> = places.take(AT_ONCE).collect();
        for request in &queued {
            self.answer(*request, Answer::Gone);
        }
        self.end_grants(at, |_| MessageKind::Gone);
        queued.len() < AT_ONCE
    }
}
