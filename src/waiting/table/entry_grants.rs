//! The grants of one lock: what is known of them, and every change of their records.

use super::entry::LockEntry;
use super::grants::{Expired, GrantRecord, Synced};
use super::queue::RequestId;
use super::replication::Moved;
use super::untold::UntoldHold;
use super::waiter::Session;
use crate::lock::{Deadline, Fence, Held, Millis};

impl LockEntry {
    /// The next grant of which something is known, by its fence.
    pub(crate) fn next_known(&self, seen: Option<Fence>) -> Option<Fence> {
        self.grants.after(seen).next().map(|record| record.fence)
    }

    fn untold(&self, fence: Fence) -> impl Iterator<Item = &UntoldHold> {
        self.grants.get(fence).into_iter().flat_map(|record| record.untold.iter())
    }

    /// The holds of that grant that blocked clients were given, first come first. These clients may turn out to be gone.
    pub(super) fn given(&self, fence: Fence) -> impl Iterator<Item = &UntoldHold> {
        self.untold(fence).filter(|hold| !hold.to_claim)
    }

    /// The places that have been given that grant, and have not claimed it, first come first.
    pub(super) fn unclaimed(&self, fence: Fence) -> impl Iterator<Item = RequestId> {
        self.untold(fence).filter(|hold| hold.to_claim).map(|hold| hold.request)
    }

    /// The hold of a waiter that is yet to be told of its grant, or to claim it.
    pub(super) fn hold(&self, fence: Fence, request: RequestId) -> Option<&UntoldHold> {
        self.grants.get(fence)?.untold.get(request)
    }

    /// A waiter has been given that grant without a hold of its own.
    pub(crate) fn share_hold_with(&mut self, fence: Fence, request: RequestId) {
        self.grants.change(fence, |record| record.untold.share_with(request));
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

    /// How many holds of that grant are to be taken back.
    pub(crate) fn take_undeliverable_of(&mut self, fence: Fence) -> Option<u32> {
        let take = |record: &mut GrantRecord| std::mem::take(&mut record.undeliverable);
        self.grants.change(fence, take).filter(|holds| *holds > 0)
    }

    pub(super) fn sessions(&self) -> impl Iterator<Item = &Session> {
        self.grants.sessions()
    }

    /// The grants that connections keep alive.
    pub(crate) fn session_fences(&self) -> Vec<Fence> {
        self.sessions().map(|session| session.fence).collect()
    }

    pub(super) fn change_session(&mut self, fence: Fence, body: impl FnOnce(&mut Session)) {
        self.grants.change(fence, |record| record.session.as_mut().map(body));
    }

    /// Has a session looked at later.
    pub(crate) fn renew_session_at(&mut self, fence: Fence, renew_at: Millis) {
        self.change_session(fence, |session| session.renew_at = renew_at);
    }

    /// The client of the running command keeps that grant alive from now on, not the waiters that got it before and are still to be
    /// told.
    pub(crate) fn end_binds(&mut self, fence: Fence) {
        self.grants.change(fence, |record| record.untold.end_binds());
    }

    /// A waiter is told of that grant: whether its connection is to keep it alive. If the waiter turns out to be gone, what its connection
    /// kept alive before is not that of this answer.
    pub(super) fn bind(&mut self, fence: Fence, request: RequestId, client: u64) -> bool {
        let goes_on = self.grants.session(fence).is_none_or(|session| session.client != client);
        let bind = |record: &mut GrantRecord| {
            let binds = record.untold.get(request).is_some_and(|hold| hold.binds);
            record.untold.set_binds(request, binds && goes_on);
            binds
        };
        self.grants.change(fence, bind).unwrap_or_default()
    }

    pub(super) fn synced(&self, fence: Fence) -> Option<&Synced> {
        self.grants.get(fence)?.synced.as_deref()
    }

    pub(super) fn change_synced<R>(
        &mut self,
        fence: Fence,
        body: impl FnOnce(&mut Synced) -> R,
    ) -> Option<R> {
        self.grants.change(fence, |record| record.synced.as_deref_mut().map(body)).flatten()
    }

    /// Whether a connection keeps that grant alive only as long as replicas confirm it.
    pub(crate) fn is_synced(&self, fence: Fence) -> bool {
        self.synced(fence).is_some()
    }

    /// Whether a renewal of that grant is still to be confirmed.
    pub(crate) fn awaits_renewal(&self, fence: Fence) -> bool {
        self.synced(fence).is_some_and(|synced| synced.pending.is_some())
    }

    /// The grant as its holder may count on it: a session's renewal says nothing before replicas have confirmed it. None where the lease
    /// is over without.
    pub(crate) fn confirmed<'a>(&self, held: Held<'a>, now: Millis) -> Option<Held<'a>> {
        let moved = self.synced(held.grant.fence()).and_then(Synced::unconfirmed);
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

    /// Takes what was kept so.
    pub(super) fn take_expired(&mut self) -> Vec<Expired> {
        let mut all = Vec::new();
        if self.has_expired() {
            self.grants.change_all(|record| all.extend(record.expired.take().map(|expired| *expired)));
        }
        all
    }

    /// Something has been done to the key under that number: grants that were kept before are not given back.
    pub(super) fn touched_by(&mut self, number: u64) {
        if self.has_expired() {
            self.grants.change_all(|record| {
                let earlier = record.expired.iter_mut().filter(|expired| expired.kept_at < number);
                earlier.for_each(|expired| expired.for_good = true);
            });
        }
    }

    /// The grants that were kept so.
    pub(super) fn expired(&self) -> impl Iterator<Item = &Expired> {
        let records = if self.has_expired() { self.grants.len() } else { 0 };
        self.grants.iter().take(records).filter_map(|record| record.expired.as_deref())
    }

    /// The owner has claimed that grant, or goes on with it by other holds: its listener knows of the grant.
    pub(super) fn listener_knows(&mut self, fence: Fence) {
        self.grants.change(fence, |record| {
            record.listener.iter_mut().for_each(|listener| listener.claimed = true);
        });
    }
}
