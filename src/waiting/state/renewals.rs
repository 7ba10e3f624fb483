//! Sessions whose renewals replicas confirm.
//!
//! A renewal is made first, and set back if it is not confirmed in time: `settle` does that with the lock open.

use super::State;
use super::awaited::{Confirm, Kept, Moved, What, confirmed_by};
use super::place::At;
use super::queue::Ticket;
use crate::lock::{Deadline, Fence, Held, Millis};

impl<C: Copy> State<C> {
    /// From now on replicas are to confirm so that a connection keeps that grant alive; or (none) they are not.
    pub(crate) fn confirm_session(&mut self, at: At<'_>, fence: Fence, confirm: Option<Confirm>) {
        self.end_confirmed_session(at, fence);
        if let Some(confirm) = confirm
            && let Some(place) = self.place(at)
        {
            let kept = Kept { confirm, pending: None, failed: None };
            self.confirmations.kept.insert((place, fence), kept);
        }
    }

    /// The session of that grant is over.
    pub(super) fn end_confirmed_session(&mut self, at: At<'_>, fence: Fence) {
        if self.confirmations.kept.is_empty() {
            return;
        }
        let kept = self.confirmations.kept.remove(&(at.to_place(), fence));
        if let Some(ticket) = kept.and_then(|kept| kept.pending) {
            self.end_pending(ticket);
        }
    }

    /// Whether replicas are to confirm that a connection keeps that grant alive.
    pub(crate) fn is_confirmed_session(&self, at: At<'_>, fence: Fence) -> bool {
        self.kept(at, fence).is_some()
    }

    /// Whether a renewal of that grant is still to be confirmed.
    pub(crate) fn awaits_renewal(&self, at: At<'_>, fence: Fence) -> bool {
        self.kept(at, fence).is_some_and(|kept| kept.pending.is_some())
    }

    fn kept(&self, at: At<'_>, fence: Fence) -> Option<&Kept> {
        let kept = &self.confirmations.kept;
        if kept.is_empty() { None } else { kept.get(&(at.to_place(), fence)) }
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
        let kept = self.kept(at, fence)?;
        kept.failed.or_else(|| match self.confirmations.pending.get(&kept.pending?)?.what {
            What::Renewal { moved, .. } => Some(moved),
            What::Answer => None,
        })
    }

    /// The lease of a session's grant has been moved: where replicas are to confirm that, they have until the lease would have ended.
    pub(crate) fn await_renewal(&mut self, at: At<'_>, fence: Fence, moved: Moved, now: Millis) {
        let Some(Confirm { replicas, within }) = self.kept(at, fence).map(|kept| kept.confirm) else {
            return;
        };
        let (place, ticket) = (at.to_place(), self.next_ticket());
        if let Some(kept) = self.confirmations.kept.get_mut(&(place.clone(), fence)) {
            kept.pending = Some(ticket);
        }
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
        let waits = self.kept(at, fence)?.pending;
        let is_over = |ticket: &Ticket| {
            self.confirmations.pending.get(ticket).is_some_and(|pending| pending.ends < now)
        };
        if let Some(ticket) = waits.filter(is_over) {
            // A command may come before the alarm does.
            self.end_unconfirmed(ticket);
        }
        self.kept(at, fence)?.failed?;
        self.confirmations.kept.get_mut(&(at.to_place(), fence))?.failed.take()
    }
}
