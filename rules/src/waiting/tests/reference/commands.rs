//! The commands of clients, in the reference.

use super::super::server::Conn;
use super::{Answered, Outcome, Reference, Wish};
use crate::lock::Millis;

impl Reference {
    pub(crate) fn acquire(&mut self, conn: Conn, wish: Wish, block: bool, now: Millis) -> Outcome {
        self.lapse(now);
        self.serve(now);
        let outcome = self.take(wish, block, now);
        let holder = self.holder(wish.who).copied();
        if let (Outcome::Granted(..), Some(holder), true) = (outcome, holder, wish.session) {
            // This connection now keeps the grant alive, so clients of the grant that have not been answered yet start no session.
            for answered in self.answered.iter_mut().filter(|answered| answered.grant == holder.fence) {
                answered.session = None;
            }
            self.keep_alive(conn, wish.lease, holder.fence, now);
        }
        if let Outcome::Granted(..) = outcome {
            // The owner may have a slot now. Then its clients that wait for another slot can never have it.
            self.serve(now);
        }
        outcome
    }

    pub(super) fn take(&mut self, wish: Wish, block: bool, now: Millis) -> Outcome {
        let Some(holder) = self.holder(wish.who).copied() else {
            return match self.waiting.is_empty() && self.fits(wish) {
                true => self.grant(wish, now).map_or(Outcome::Null, Outcome::of),
                false => Outcome::Null,
            };
        };
        if Self::wants_another_slot(&holder, wish) {
            return Outcome::OtherSlot;
        }
        if wish.room < holder.room && !self.fits(wish) {
            if block && self.another_upgrades(holder.fence) {
                return Outcome::Deadlock;
            }
            if block {
                self.upgrader = Some(holder.fence);
            }
            return Outcome::Null;
        }
        if wish.once {
            self.share_hold(holder.fence);
        }
        self.reenter(wish, now).map_or(Outcome::Null, Outcome::of)
    }

    pub(crate) fn release(&mut self, who: usize, all: bool, now: Millis) -> Option<u32> {
        self.lapse(now);
        let left = self.give_back(who, all);
        self.serve(now);
        left
    }

    pub(super) fn give_back(&mut self, who: usize, all: bool) -> Option<u32> {
        let holder = self.holder_mut(who)?;
        holder.holds = if all { 0 } else { holder.holds - 1 };
        let left = holder.holds;
        self.end_grants(|holder| holder.holds == 0);
        Some(left)
    }

    /// Ends the grant with this fence, or all grants. Returns how many grants have ended.
    pub(crate) fn end(&mut self, fence: Option<u64>, now: Millis) -> usize {
        let before = self.holders.len();
        self.end_grants(|holder| fence.is_none_or(|fence| holder.fence == fence));
        let ended = before - self.holders.len();
        self.serve(now);
        ended
    }

    pub(crate) fn extend(&mut self, who: usize, lease: Millis, now: Millis) -> Option<Millis> {
        self.look_for_holder(now);
        let holder = self.holder_mut(who)?;
        let until = holder.longest(lease, now);
        let fence = holder.fence;
        let extends = until >= now;
        if extends {
            holder.until = until;
            for answered in self.answered.iter_mut().filter(|answered| answered.grant == fence) {
                answered.told.iter_mut().for_each(|told| told.1 = told.1.min(until));
            }
            let holder = self.holder_mut(who)?;
            let holds = holder.holds as usize;
            let own = |answered: &&mut Answered| answered.grant == fence && answered.own_hold;
            let untold = self.answered.iter_mut().filter(own).count();
            // An owner that extends the grant must know of at least one hold.
            let first = self.answered.iter_mut().find(|answered| own(answered));
            first.into_iter().filter(|_| untold >= holds).for_each(|answered| answered.own_hold = false);
        }
        extends.then_some(until)
    }
}
