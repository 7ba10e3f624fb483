//! Sessions whose renewals replicas confirm.
//!
//! A renewal is made first, and set back if it is not confirmed in time: `settle` does that with the lock open.

use super::WaitTable;
use super::entry::LockEntry;
use super::grants::Synced;
use super::lock_id::LockRef;
use super::queue::RequestId;
use super::replication::{Confirm, Moved, What, confirmed_by};
use crate::lock::{Deadline, Fence, Held, Millis};

impl<C: Copy> WaitTable<C> {
    /// From now on replicas are to confirm so that a connection keeps that grant alive; or (none) they are not.
    pub(crate) fn confirm_session(&mut self, at: LockRef<'_>, fence: Fence, confirm: Option<Confirm>) {
        let synced = confirm.map(|confirm| Box::new(Synced { confirm, pending: None, failed: None }));
        let replace = |entry: &mut LockEntry| {
            entry.grants.change(fence, |record| match record.session {
                Some(_) => std::mem::replace(&mut record.synced, synced),
                None => None,
            })
        };
        let earlier = self.change(at, replace).flatten().flatten();
        if let Some(request) = earlier.and_then(|synced| synced.pending) {
            self.end_pending(request);
        }
    }

    /// The grant as its holder may count on it: a session's renewal says nothing before replicas have confirmed it. None where the lease
    /// is over without.
    pub(crate) fn confirmed<'a>(&self, at: LockRef<'_>, held: Held<'a>, now: Millis) -> Option<Held<'a>> {
        // Somebody else may have moved the lease since.
        match self.unconfirmed_renewal(at, held.grant.fence()).filter(|moved| moved.to == held.deadline) {
            None => Some(held),
            Some(Moved { from, .. }) => {
                (from >= Deadline::At(now)).then_some(Held { deadline: from, ..held })
            }
        }
    }

    /// The renewal of that grant that replicas have not confirmed.
    fn unconfirmed_renewal(&self, at: LockRef<'_>, fence: Fence) -> Option<Moved> {
        let synced = self.lock(at).synced(fence)?;
        synced.failed.or_else(|| match self.replication.pending.get(&synced.pending?)?.what {
            What::Renewal { moved, .. } => Some(moved),
            What::Answer => None,
        })
    }

    /// The lease of a session's grant has been moved: where replicas are to confirm that, they have until the lease would have ended.
    pub(crate) fn await_renewal(&mut self, at: LockRef<'_>, fence: Fence, moved: Moved, now: Millis) {
        let Some(Confirm { replicas, within }) = self.lock(at).synced(fence).map(|synced| synced.confirm)
        else {
            return;
        };
        let (id, request) = (at.to_id(), self.next_request());
        self.change(at, |entry| entry.change_synced(fence, |synced| synced.pending = Some(request)));
        let ends = confirmed_by(within, moved.from, now);
        self.add_pending(request, replicas, ends, What::Renewal { id, fence, moved });
    }

    /// The renewal of that grant that is to be undone, since replicas have not confirmed it in time.
    pub(crate) fn take_unconfirmed_renewal(
        &mut self,
        at: LockRef<'_>,
        fence: Fence,
        now: Millis,
    ) -> Option<Moved> {
        let waits = self.lock(at).synced(fence)?.pending;
        let is_over = |request: &RequestId| {
            self.replication.pending.get(request).is_some_and(|pending| pending.ends < now)
        };
        if let Some(request) = waits.filter(is_over) {
            // A command may come before the timer does.
            self.end_unconfirmed(request);
        }
        self.change(at, |entry| entry.change_synced(fence, |synced| synced.failed.take())).flatten().flatten()
    }
}
