//! Waiters that go away: what was granted to one that cannot be told any more is taken back, or is another's.

use super::queue::RequestId;
use super::waiter::Phase;
use super::{LockRef, WaitTable};
use crate::lock::Fence;

impl<C: Copy> WaitTable<C> {
    /// A waiter can be told nothing any more.
    pub(crate) fn depart(&mut self, request: RequestId) {
        self.leave(request, Phase::Left);
        self.stop_awaiting(request);
        self.take_back(request);
    }

    /// A waiter has nothing of what it was granted.
    pub(super) fn take_back(&mut self, request: RequestId) {
        let Some(waiter) = self.waiters.get_mut(&request) else { return };
        let phase = std::mem::replace(&mut waiter.phase, Phase::Left);
        if !phase.is_granted() {
            return;
        }
        let (locks, client, told) = (waiter.locks.clone(), waiter.client_id, matches!(phase, Phase::Told(_)));
        for lock in locks.all() {
            let Some(granted) = lock.fence() else { continue };
            let at = lock.id.to_ref();
            // Told, but in vain: then it has no session either. What its connection kept alive before is not meant.
            let session = self.session(at, granted).filter(|session| session.client == client);
            if session.is_some()
                && told
                && self.lock(at).hold(granted, request).is_some_and(|hold| hold.binds)
            {
                self.end_session(at, granted);
            }
            self.look_by(at, 0);
            self.change(at, |entry| entry.lose_untold(granted, request));
        }
    }

    /// The owner has been told of the hold of that grant: it is not taken back with a waiter that was to be told of it. What was
    /// to be claimed is.
    pub(crate) fn share_hold(&mut self, at: LockRef<'_>, fence: Fence) {
        self.claim(at, fence);
        self.change(at, |entry| entry.grants.change(fence, |record| record.untold.share_with_blocked()));
    }

    /// The owner has been told of one of so many holds of that grant. If it had been told of none before, one waiter shares its hold.
    pub(crate) fn share_one_hold(&mut self, at: LockRef<'_>, fence: Fence, holds: u32) {
        self.claim(at, fence);
        let mut given = self.lock(at).given(fence).filter(|hold| hold.own).map(|hold| hold.request);
        let (first, more) = (given.next(), given.count());
        if let Some(first) = first.filter(|_| more + 1 >= holds as usize) {
            self.change(at, |entry| entry.share_hold_with(fence, first));
        }
    }

    /// The server has freed a waiter: what is left of it is dropped.
    pub(crate) fn forget(&mut self, request: RequestId) {
        let Some(waiter) = self.waiters.get(&request) else { return };
        // Not told any more, whatever kept us from it.
        if !matches!(waiter.phase, Phase::Told(_)) {
            self.depart(request);
        } else if waiter.phase.is_granted() {
            let confirmed = waiter.confirm.is_some();
            for lock in waiter.locks.clone().all() {
                let Some(fence) = lock.fence() else { continue };
                let at = lock.id.to_ref();
                if self.lock(at).hold(fence, request).is_some_and(|hold| !hold.own) {
                    // It has been told of a hold that others were to be told of.
                    self.share_hold(at, fence);
                }
                if confirmed {
                    // From now on it knows what it is to give up.
                    self.change(at, |entry| entry.listener_knows(fence));
                    self.tell_wanted(at);
                }
            }
        }
        self.drop_waiter(request);
    }

    /// Drops all that is known of a waiter that stands in no queue.
    pub(super) fn drop_waiter(&mut self, request: RequestId) {
        let Some(waiter) = self.waiters.remove(&request) else { return };
        self.stop_awaiting(request);
        self.connections.remove_place(waiter.client_id, request);
        self.timers.cancel_timeout(request, waiter.ends);
        if !waiter.phase.is_granted() {
            return;
        }
        for lock in waiter.locks.all() {
            let Some(fence) = lock.fence() else { continue };
            let recheck = self.change(lock.id.to_ref(), |entry| {
                let hold = entry.remove_untold(fence, request);
                hold.is_some_and(|hold| hold.to_claim) && entry.recheck
            });
            if recheck == Some(true) {
                self.look_by(lock.id.to_ref(), 0);
            }
        }
    }
}
