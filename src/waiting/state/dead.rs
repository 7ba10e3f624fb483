//! Waiters that go away: what was granted to one that cannot be told any more is taken back, or is another's.

use super::grants::GrantRecord;
use super::queue::Ticket;
use super::untold::UntoldHold;
use super::waiter::Phase;
use super::{At, State};
use crate::lock::Fence;

impl<C: Copy> State<C> {
    /// A waiter can be told nothing any more.
    pub(crate) fn depart(&mut self, ticket: Ticket) {
        self.leave(ticket, Phase::Left);
        self.stop_awaiting(ticket);
        self.take_back(ticket);
    }

    /// A waiter has nothing of what it was granted.
    pub(super) fn take_back(&mut self, ticket: Ticket) {
        let Some(waiter) = self.waiters.get_mut(&ticket) else { return };
        let phase = std::mem::replace(&mut waiter.phase, Phase::Left);
        if !phase.is_granted() {
            return;
        }
        let (stands, client, told) =
            (waiter.stands.clone(), waiter.client_id, matches!(phase, Phase::Told(_)));
        for stand in stands.all() {
            let Some(granted) = stand.fence() else { continue };
            let at = stand.place.at();
            // Told, but in vain: then it has no session either. What its connection kept alive before is not meant.
            let session = self.session(at, granted).filter(|session| session.client == client);
            if session.is_some() && told && self.hold(at, granted, ticket).is_some_and(|hold| hold.binds) {
                self.end_session(at, granted);
            }
            self.look_by(at, 0);
            self.with_line(at, |line| line.lose_untold(granted, ticket));
        }
    }

    /// A waiter has been given that grant without a hold of its own.
    pub(crate) fn share_hold_with(&mut self, at: At<'_>, fence: Fence, ticket: Ticket) {
        self.with_line(at, |line| line.grants.change(fence, |record| record.untold.share_with(ticket)));
    }

    /// The owner has been told of the hold of that grant: it is not taken back with a waiter that was to be told of it. What was
    /// to be claimed is.
    pub(crate) fn share_hold(&mut self, at: At<'_>, fence: Fence) {
        self.claim(at, fence);
        self.with_line(at, |line| line.grants.change(fence, |record| record.untold.share_with_blocked()));
    }

    /// The same of one of so many holds, where it has been told of none yet.
    pub(crate) fn share_one_hold(&mut self, at: At<'_>, fence: Fence, holds: u32) {
        self.claim(at, fence);
        let mut given = self.given(at, fence).filter(|hold| hold.own).map(|hold| hold.ticket);
        let (first, more) = (given.next(), given.count());
        if let Some(first) = first.filter(|_| more + 1 >= holds as usize) {
            self.share_hold_with(at, fence, first);
        }
    }

    /// A grant on that lock whose waiter went away before it was answered, and how many holds of it are to be taken back.
    pub(crate) fn take_undeliverable(&mut self, at: At<'_>) -> Option<(Fence, u32)> {
        let fence = self.line(at)?.grants.first_undeliverable()?;
        Some((fence, self.take_undeliverable_of(at, fence)?))
    }

    /// How many holds of that grant are to be taken back.
    pub(crate) fn take_undeliverable_of(&mut self, at: At<'_>, fence: Fence) -> Option<u32> {
        let take = |record: &mut GrantRecord| std::mem::take(&mut record.undeliverable);
        let holds = self.with_line(at, |line| line.grants.change(fence, take)).flatten();
        holds.filter(|holds| *holds > 0)
    }

    pub(crate) fn has_undeliverable(&self, at: At<'_>) -> bool {
        self.line(at).is_some_and(|line| line.grants.counts().undeliverable > 0)
    }

    /// The server has freed a waiter: what is left of it is dropped.
    pub(crate) fn forget(&mut self, ticket: Ticket) {
        let Some(waiter) = self.waiters.get(&ticket) else { return };
        // Not told any more, whatever kept us from it.
        if !matches!(waiter.phase, Phase::Told(_)) {
            self.depart(ticket);
        } else if waiter.phase.is_granted() {
            let confirmed = waiter.confirm.is_some();
            for stand in waiter.stands.clone().all() {
                let Some(fence) = stand.fence() else { continue };
                let at = stand.place.at();
                if self.hold(at, fence, ticket).is_some_and(|hold| !hold.own) {
                    // It has been told of a hold that others were to be told of.
                    self.share_hold(at, fence);
                }
                if confirmed {
                    // From now on it knows what it is to give up.
                    self.watch_claimed(at, fence);
                    self.tell_wanted(at);
                }
            }
        }
        self.drop_waiter(ticket);
    }

    /// What a waiter has of a grant that it is yet to be told of, or to claim.
    fn hold(&self, at: At<'_>, fence: Fence, ticket: Ticket) -> Option<&UntoldHold> {
        self.line(at)?.grants.get(fence)?.untold.get(ticket)
    }

    /// Drops all that is known of a waiter that stands in no queue.
    pub(super) fn drop_waiter(&mut self, ticket: Ticket) {
        let Some(waiter) = self.waiters.remove(&ticket) else { return };
        self.stop_awaiting(ticket);
        self.connections.remove_place(waiter.client_id, ticket);
        self.timers.cancel_timeout(ticket, waiter.ends);
        if !waiter.phase.is_granted() {
            return;
        }
        for stand in waiter.stands.all() {
            let Some(fence) = stand.fence() else { continue };
            let through = self.with_line(stand.place.at(), |line| {
                let hold = line.remove_untold(fence, ticket);
                hold.is_some_and(|hold| hold.to_claim) && line.through
            });
            if through == Some(true) {
                self.look_by(stand.place.at(), 0);
            }
        }
    }
}
