//! Access to the grants of one lock, for the rules: the code outside of `table` that decides who gets a lock.

use super::entry::LockEntry;
use super::grant_record::GrantRecord;
use super::queue::RequestId;
use super::replication::Moved;
use crate::lock::{Deadline, Fence, Held, Millis};

impl LockEntry {
    /// Returns the fence of the next grant after `seen` that has a record.
    pub(crate) fn next_known(&self, seen: Option<Fence>) -> Option<Fence> {
        self.grants.after(seen).next().map(|record| record.fence)
    }

    /// Notes that a waiter with this grant has no hold of its own, but shares a hold of its owner.
    pub(crate) fn share_hold_with(&mut self, fence: Fence, request: RequestId) {
        self.grants.change(fence, |record| record.pending.share_with(request));
    }

    /// Whether there is a hold whose waiter went away before it was told.
    pub(crate) fn has_undeliverable(&self) -> bool {
        self.grants.counts().undeliverable > 0
    }

    /// Returns how many holds of this grant have to be taken back.
    pub(crate) fn undeliverable_of(&self, fence: Fence) -> u32 {
        self.grants.get(fence).map_or(0, |record| record.undeliverable)
    }

    /// Returns the first grant with holds that have to be taken back, because their waiters went away before they were told, and the number
    /// of these holds. Also sets this number in the grant's record to 0, because the caller has to take the holds back.
    pub(crate) fn take_undeliverable(&mut self) -> Option<(Fence, u32)> {
        let fence = self.grants.first_undeliverable()?;
        Some((fence, self.take_undeliverable_of(fence)?))
    }

    /// Returns how many holds of this grant have to be taken back, if any, and sets this number to 0.
    pub(crate) fn take_undeliverable_of(&mut self, fence: Fence) -> Option<u32> {
        let take = |record: &mut GrantRecord| std::mem::take(&mut record.undeliverable);
        self.grants.change(fence, take).filter(|holds| *holds > 0)
    }

    /// Returns the fences of the grants that connections keep alive.
    pub(crate) fn session_fences(&self) -> Vec<Fence> {
        self.grants.sessions().map(|session| session.fence).collect()
    }

    /// Sets when the session of this grant has to renew the lease.
    pub(crate) fn renew_session_at(&mut self, fence: Fence, renew_at: Millis) {
        self.grants.change(fence, |record| {
            record.session.iter_mut().for_each(|session| session.renew_at = renew_at);
        });
    }

    /// Notes that the blocked waiters that were given this grant, and are still to be told, will not keep it alive, because the client of
    /// the running command keeps it alive from now on.
    pub(crate) fn end_binds(&mut self, fence: Fence) {
        self.grants.change(fence, |record| record.pending.end_binds());
    }

    /// Whether the session of this grant keeps it alive only as long as replicas confirm the renewals.
    pub(crate) fn is_synced(&self, fence: Fence) -> bool {
        self.grants.synced(fence).is_some()
    }

    /// Whether replicas still have to confirm a renewal of this grant.
    pub(crate) fn awaits_renewal(&self, fence: Fence) -> bool {
        self.grants.synced(fence).is_some_and(|synced| synced.unconfirmed.is_some())
    }

    /// Returns the grant with the lease that its holder can rely on, which excludes a renewal that replicas have not confirmed. Returns
    /// `None` if the lease is over without that renewal.
    pub(crate) fn confirmed<'a>(&self, held: Held<'a>, now: Millis) -> Option<Held<'a>> {
        let moved = self.grants.synced(held.grant.fence()).and_then(|synced| Some(synced.unconfirmed?.0));
        // If the present end of the lease is not the end that the renewal set, somebody has changed the lease since, so the renewal no
        // longer matters.
        match moved.filter(|moved| moved.to == held.deadline) {
            None => Some(held),
            Some(Moved { from, .. }) => {
                (from >= Deadline::At(now)).then_some(Held { deadline: from, ..held })
            }
        }
    }

    /// Whether the module keeps grants of the lock although their leases ended while this server was frozen.
    pub(crate) fn has_expired(&self) -> bool {
        self.grants.counts().expired > 0
    }
}
