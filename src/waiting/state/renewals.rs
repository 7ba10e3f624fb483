//! Sessions whose renewals replicas confirm.
//!
//! A renewal is made first, and set back if it is not confirmed in time: `settle` does that with the lock open.

use super::State;
use super::awaited::{Confirm, Moved, What, confirmed_by};
use super::grants::Synced;
use super::line::Line;
use super::place::At;
use super::queue::Ticket;
use crate::lock::{Deadline, Fence, Held, Millis};

impl<C: Copy> State<C> {
    /// From now on replicas are to confirm so that a connection keeps that grant alive; or (none) they are not.
    pub(crate) fn confirm_session(&mut self, at: At<'_>, fence: Fence, confirm: Option<Confirm>) {
        let synced = confirm.map(|confirm| Box::new(Synced { confirm, pending: None, failed: None }));
        let replace = |line: &mut Line| {
            line.grants.change(fence, |record| match record.session {
                Some(_) => std::mem::replace(&mut record.synced, synced),
                None => None,
            })
        };
        let earlier = self.with_line(at, replace).flatten().flatten();
        if let Some(ticket) = earlier.and_then(|synced| synced.pending) {
            self.end_pending(ticket);
        }
    }

    /// Whether replicas are to confirm that a connection keeps that grant alive.
    pub(crate) fn is_confirmed_session(&self, at: At<'_>, fence: Fence) -> bool {
        self.synced(at, fence).is_some()
    }

    /// Whether a renewal of that grant is still to be confirmed.
    pub(crate) fn awaits_renewal(&self, at: At<'_>, fence: Fence) -> bool {
        self.synced(at, fence).is_some_and(|synced| synced.pending.is_some())
    }

    fn synced(&self, at: At<'_>, fence: Fence) -> Option<&Synced> {
        self.line(at)?.grants.get(fence)?.synced.as_deref()
    }

    pub(super) fn change_synced<R>(
        &mut self,
        at: At<'_>,
        fence: Fence,
        body: impl FnOnce(&mut Synced) -> R,
    ) -> Option<R> {
        let change = |line: &mut Line| {
            line.grants.change(fence, |record| record.synced.as_deref_mut().map(body)).flatten()
        };
        self.with_line(at, change).flatten()
    }

    /// The grant as its holder may count on it: a session's renewal says nothing before replicas have confirmed it. None where the lease
    /// is over without.
    pub(crate) fn confirmed<'a>(&self, at: At<'_>, held: Held<'a>, now: Millis) -> Option<Held<'a>> {
        // Somebody else may have moved the lease since.
        match self.unconfirmed_renewal(at, held.grant.fence()).filter(|moved| moved.to == held.deadline) {
            None => Some(held),
            Some(Moved { from, .. }) => {
                (from >= Deadline::At(now)).then_some(Held { deadline: from, ..held })
            }
        }
    }

    /// The renewal of that grant that replicas have not confirmed.
    fn unconfirmed_renewal(&self, at: At<'_>, fence: Fence) -> Option<Moved> {
        let synced = self.synced(at, fence)?;
        synced.failed.or_else(|| match self.confirmations.pending.get(&synced.pending?)?.what {
            What::Renewal { moved, .. } => Some(moved),
            What::Answer => None,
        })
    }

    /// The lease of a session's grant has been moved: where replicas are to confirm that, they have until the lease would have ended.
    pub(crate) fn await_renewal(&mut self, at: At<'_>, fence: Fence, moved: Moved, now: Millis) {
        let Some(Confirm { replicas, within }) = self.synced(at, fence).map(|synced| synced.confirm) else {
            return;
        };
        let (place, ticket) = (at.to_place(), self.next_ticket());
        self.change_synced(at, fence, |synced| synced.pending = Some(ticket));
        let ends = confirmed_by(within, moved.from, now);
        self.add_pending(ticket, replicas, ends, What::Renewal { place, fence, moved });
    }

    /// The renewal of that grant that is to be undone, since replicas have not confirmed it in time.
    pub(crate) fn take_unconfirmed_renewal(
        &mut self,
        at: At<'_>,
        fence: Fence,
        now: Millis,
    ) -> Option<Moved> {
        let waits = self.synced(at, fence)?.pending;
        let is_over = |ticket: &Ticket| {
            self.confirmations.pending.get(ticket).is_some_and(|pending| pending.ends < now)
        };
        if let Some(ticket) = waits.filter(is_over) {
            // A command may come before the timer does.
            self.end_unconfirmed(ticket);
        }
        self.change_synced(at, fence, |synced| synced.failed.take()).flatten()
    }
}
