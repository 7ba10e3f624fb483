//! Access to the grants of one lock, for the rules.

use super::entry::LockEntry;
use super::grant_record::GrantRecord;
use super::queue::RequestId;
use super::replication::Moved;
use crate::lock::{Deadline, Fence, Held, Millis};

impl LockEntry {
    /// The next grant after `seen` of which something is known, by its fence.
    pub(crate) fn next_known(&self, seen: Option<Fence>) -> Option<Fence> {
        self.grants.after(seen).next().map(|record| record.fence)
    }

    /// Notes that a waiter with this grant has no hold of its own, but shares one.
    pub(crate) fn share_hold_with(&mut self, fence: Fence, request: RequestId) {
        self.grants.change(fence, |record| record.pending.share_with(request));
    }

    /// Whether there is a hold whose waiter went away before it was told.
    pub(crate) fn has_undeliverable(&self) -> bool {
        self.grants.counts().undeliverable > 0
    }

    /// Takes the first grant of which holds are to be taken back, because their waiters went away before they were told. Returns it with
    /// the number of these holds.
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

    /// Sets when a session is to be renewed.
    pub(crate) fn renew_session_at(&mut self, fence: Fence, renew_at: Millis) {
        self.grants.change(fence, |record| {
            record.session.iter_mut().for_each(|session| session.renew_at = renew_at);
        });
    }

    /// Notes that the client of the running command keeps this grant alive from now on. Blocked waiters that were given the grant before,
    /// and are still to be told, will not keep it alive.
    pub(crate) fn end_binds(&mut self, fence: Fence) {
        self.grants.change(fence, |record| record.pending.end_binds());
    }

    /// Whether a connection keeps this grant alive only as long as replicas confirm the renewals.
    pub(crate) fn is_synced(&self, fence: Fence) -> bool {
        self.grants.synced(fence).is_some()
    }

    /// Whether a renewal of this grant is still to be confirmed.
    pub(crate) fn awaits_renewal(&self, fence: Fence) -> bool {
        self.grants.synced(fence).is_some_and(|synced| synced.unconfirmed.is_some())
    }

    /// The grant with the lease that its holder may count on, which excludes a renewal that replicas have not confirmed. Returns `None` if
    /// the lease is over without that renewal.
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

    /// Whether there are kept grants: their leases ended during a freeze.
    pub(crate) fn has_expired(&self) -> bool {
        self.grants.counts().expired > 0
    }
}
