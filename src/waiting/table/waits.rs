//! Which request waits for which, for `DETECT`.

use super::queue::RequestId;
use super::waiter::Phase;
use super::{LockId, LockRef, WaitTable};
use crate::lock::{AcquireRequest, Fence, Owner, Room, SlotRequest};

/// A waiter in front of another one in a queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ahead {
    pub(crate) request: RequestId,
    pub(crate) room: Room,
    /// It depends on more than its room: it waits for other locks too, or for one slot.
    pub(crate) several: bool,
}

impl<C: Copy> WaitTable<C> {
    /// The waits of an owner; none where they are more than that.
    pub(crate) fn waits_of(&self, owner: &Owner<'_>, most: usize) -> Option<Vec<RequestId>> {
        let mut perhaps = self.owners.perhaps(owner);
        let is_its = |request: &RequestId| {
            self.waiters.get(request).is_some_and(|waiter| waiter.ask.owner.borrowed() == owner.borrowed())
        };
        let waits = perhaps.by_ref().take(most).filter(is_its).collect();
        perhaps.next().is_none().then_some(waits)
    }

    /// Whether anybody waits for several locks.
    pub(crate) fn has_several(&self) -> bool {
        self.owners.has_several()
    }

    /// What a waiter in a queue asks for; none where its connection has closed.
    pub(crate) fn ask_of(&self, request: RequestId) -> Option<AcquireRequest<'static>> {
        let waiter = self.waiters.get(&request).filter(|waiter| waiter.phase == Phase::Queued)?;
        (!self.connections.is_closed(waiter.client_id)).then(|| waiter.ask.clone())
    }

    /// The locks that a waiter waits for.
    pub(crate) fn locks_of_wait(&self, request: RequestId) -> Vec<LockId> {
        let locks = self.waiters.get(&request).into_iter().flat_map(|waiter| waiter.locks.all());
        locks.map(|lock| lock.id.clone()).collect()
    }

    /// The waiters that are served before that one, or before one that comes now: the next one first.
    pub(crate) fn ahead_of(
        &self,
        at: LockRef<'_>,
        request: Option<RequestId>,
    ) -> impl Iterator<Item = Ahead> {
        let ahead = self.lock(at).in_order().take_while(move |other| Some(*other) != request);
        ahead.filter_map(|request| {
            let waiter = self.waiters.get(&request)?;
            if self.connections.is_closed(waiter.client_id) {
                // It keeps nobody waiting.
                return Some(Ahead { request, room: Room::ANY, several: false });
            }
            let waits_for_slot = matches!(waiter.ask.slot, Some(SlotRequest::This(_)));
            let several = waiter.locks.are_several() || waits_for_slot;
            Some(Ahead { request, room: waiter.ask.room, several })
        })
    }

    /// The connection that keeps a grant alive, and the last wait in which it was blocked. That may be over.
    pub(crate) fn keeper(&self, at: LockRef<'_>, fence: Fence) -> Option<(u64, Option<RequestId>)> {
        let client = self.session_client(at, fence)?;
        Some((client, self.connections.blocked(client)))
    }
}
