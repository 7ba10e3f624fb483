//! What the rules see and change of the grants of one lock.

use super::entry::LockEntry;
use super::grant_record::GrantRecord;
use super::queue::RequestId;
use super::replication::Moved;
use crate::lock::{Deadline, Fence, Held, Millis};

impl LockEntry {
    /// The next grant of which something is known, by its fence.
    pub(crate) fn next_known(&self, seen: Option<Fence>) -> Option<Fence> {
        self.grants.after(seen).next().map(|record| record.fence)
    }

    /// A waiter has been given that grant without a hold of its own.
    pub(crate) fn share_hold_with(&mut self, fence: Fence, request: RequestId) {
        self.grants.change(fence, |record| record.pending.share_with(request));
    }

    /// Whether a waiter went away before it was told of its hold.
    pub(crate) fn has_undeliverable(&self) -> bool {
        self.grants.counts().undeliverable > 0
    }

    /// A grant whose waiter went away before it was told, and how many holds of it are to be taken back.
    pub(crate) fn take_undeliverable(&mut self) -> Option<(Fence, u32)> {
        let fence = self.grants.first_undeliverable()?;
        Some((fence, self.take_undeliverable_of(fence)?))
    }

    /// Takes the number of holds of this grant that are to be taken back.
    pub(crate) fn take_undeliverable_of(&mut self, fence: Fence) -> Option<u32> {
        let take = |record: &mut GrantRecord| std::mem::take(&mut record.undeliverable);
        self.grants.change(fence, take).filter(|holds| *holds > 0)
    }

    /// The grants that connections keep alive.
    pub(crate) fn session_fences(&self) -> Vec<Fence> {
        self.grants.sessions().map(|session| session.fence).collect()
    }

    /// Has a session looked at later.
    pub(crate) fn renew_session_at(&mut self, fence: Fence, renew_at: Millis) {
        self.grants.change_session(fence, |session| session.renew_at = renew_at);
    }

    /// The client of the running command keeps that grant alive from now on, not the waiters that got it before and are still to be
    /// told.
    pub(crate) fn end_binds(&mut self, fence: Fence) {
        self.grants.change(fence, |record| record.pending.end_binds());
    }

    /// Whether a connection keeps that grant alive only as long as replicas confirm it.
    pub(crate) fn is_synced(&self, fence: Fence) -> bool {
        self.grants.synced(fence).is_some()
    }

    /// Whether a renewal of this grant is still to be confirmed.
    pub(crate) fn awaits_renewal(&self, fence: Fence) -> bool {
        self.grants.synced(fence).is_some_and(|synced| synced.unconfirmed.is_some())
    }

    /// The grant with the lease that its holder may count on, without a renewal that replicas have not confirmed. `None` if the lease is
    /// over without that renewal.
    pub(crate) fn confirmed<'a>(&self, held: Held<'a>, now: Millis) -> Option<Held<'a>> {
        let moved = self.grants.synced(held.grant.fence()).and_then(|synced| Some(synced.unconfirmed?.0));
        // Somebody else may have moved the lease since.
        match moved.filter(|moved| moved.to == held.deadline) {
            None => Some(held),
            Some(Moved { from, .. }) => {
                (from >= Deadline::At(now)).then_some(Held { deadline: from, ..held })
            }
        }
    }

    /// Whether a grant was kept whose lease ended while this server stood still.
    pub(crate) fn has_expired(&self) -> bool {
        self.grants.counts().expired > 0
    }
}
