//! What is over when a step begins: leases that have ended, grants that something else has removed, holds of clients that went away before
//! they were told, and sessions whose connections have closed.
//!
//! A lapse is noticed here if the lock has several grants. The key of a single grant expires: the server deletes it, and reports this
//! (`keyspace::removals`). For both, `Site::finish` sets the lock's timer. `session` ends a grant whose last renewal replicas have not
//! confirmed in time, if its earlier lease is over.

use super::budget::{CHANGE, END, scan};
use super::grants::{Effect, LockEvent};
use super::message::MessageKind;
use super::step::{Env, Site};
use crate::lock::{self, Deadline, Fence, Grant, GrantChange, Owner, Released};

impl Site<'_> {
    /// Returns whether the budget was enough for all that is over. Timers do the rest.
    pub(super) fn end_what_is_over<C: Copy>(&mut self, env: &mut Env<'_, C>) -> bool {
        let all = self.end_lapsed(env);
        if std::mem::take(&mut self.lock.recheck) {
            self.renew_shortened();
            self.end_missing(env);
            for record in self.lock.records().filter(|record| !record.pending.is_empty()) {
                if let Some(held) = self.grants.with_fence(record.fence) {
                    env.table.shorten_answers(record, held.deadline, env.now);
                }
            }
        } else if self.lock.records().len() == 1 {
            self.end_missing(env);
        }
        if !env.table.connections.closed.is_empty() {
            env.table.mark_all_closed(self.at, &mut self.lock);
        }
        while let Some((time, fence)) = self.lock.first_due().filter(|(time, _)| *time <= env.now.millis()) {
            if !env.table.budget.pay(CHANGE) {
                // Renewals can wait for a timer. But while something is still to be ended (`time` is 0), the lock counts as taken.
                return all && time > 0;
            }
            match self.lock.change(fence, |record| std::mem::take(&mut record.to_take_back)) {
                Some(0) => self.renew_or_end(env, fence),
                Some(holds) => self.take_back(env, fence, holds),
                None => return all,
            }
        }
        all
    }

    /// Ends lapsed grants if the lock has several grants. (The server itself ends an only grant.)
    fn end_lapsed<C: Copy>(&mut self, env: &mut Env<'_, C>) -> bool {
        if !self.grants.are_several() {
            return true;
        }
        let (value, until, now) = (self.grants.value.as_ref(), self.grants.until, env.now.millis());
        let mut lapsed: Vec<Fence> = value.into_iter().flat_map(|value| value.lapsed(until, now)).collect();
        let (all, paid) = (lapsed.len(), lapsed.iter().take_while(|_| env.table.budget.pay(END)).count());
        lapsed.truncate(paid);
        for fence in &lapsed {
            if let Some(held) = self.grants.with_fence(*fence) {
                let lapse = Effect::Lapse(Box::new(held.grant.clone()), self.lock.queue.len());
                self.effects.push(lapse);
            }
            let effect = self.grants.end(*fence);
            self.effects.extend(effect.filter(|_| paid < all));
            self.note(LockEvent::Lapsed);
            env.table.ended(self.at, &mut self.lock, *fence, Some(MessageKind::Lost));
        }
        self.effects.extend((paid == all && all > 0).then_some(Effect::Lapsed(now)));
        paid == all
    }

    /// If not all that is over could be ended, ends at least what is over of the owner's grant, so that the command sees its true state.
    pub(super) fn end_own<C: Copy>(&mut self, env: &mut Env<'_, C>, owner: &Owner<'_>) {
        let own = self.grants.grant_of(owner).filter(|_| !self.is_settled).map(Grant::fence);
        let (Some(fence), now) = (own, env.now.millis()) else { return };
        if let Some(holds @ 1..) = self.lock.change(fence, |record| std::mem::take(&mut record.to_take_back))
        {
            self.take_back(env, fence, holds);
        }
        if self.lock.record(fence).is_some_and(|record| record.due().is_some_and(|due| due <= now)) {
            self.renew_or_end(env, fence);
        }
        let is_over = self.grants.with_fence(fence).is_some_and(|held| held.deadline < Deadline::At(now));
        if is_over && self.grants.are_several() {
            self.end(env, fence, LockEvent::Lapsed);
        }
    }

    /// Drops what is known of grants that are not in the key any more.
    fn end_missing<C: Copy>(&mut self, env: &mut Env<'_, C>) {
        env.table.budget.spend(scan(self.lock.records().len()));
        let is_missing = |fence: &Fence| self.grants.with_fence(*fence).is_none();
        // Waiters for an upgrade must not go ahead any more.
        if let Some(fence) = self.lock.upgrade.as_ref().map(|upgrade| upgrade.0).filter(is_missing) {
            env.table.ended(self.at, &mut self.lock, fence, Some(MessageKind::Lost));
        }
        let missing: Vec<Fence> = self.lock.records().map(|record| record.fence).filter(is_missing).collect();
        for fence in missing {
            if !env.table.budget.pay(CHANGE) {
                self.lock.recheck = true;
                return;
            }
            env.table.ended(self.at, &mut self.lock, fence, Some(MessageKind::Lost));
        }
    }

    /// Something else may have shortened leases so that they end before sessions renew them. These sessions renew them at once.
    fn renew_shortened(&mut self) {
        let is_short = |fence: &Fence| {
            let renew_at = self.lock.record(*fence).and_then(|record| record.session).map(|its| its.renew_at);
            let until = self.grants.with_fence(*fence).map(|held| held.deadline);
            renew_at.zip(until).is_some_and(|(renew_at, until)| until < Deadline::At(renew_at))
        };
        let short: Vec<Fence> = self.lock.records().map(|record| record.fence).filter(is_short).collect();
        for fence in short {
            self.lock.change(fence, |record| record.session.iter_mut().for_each(|its| its.wake_at = 0));
        }
    }

    fn take_back<C: Copy>(&mut self, env: &mut Env<'_, C>, fence: Fence, holds: u32) {
        let Some(held) = self.grants.with_fence(fence) else { return };
        let until = held.deadline;
        match lock::release_holds(held.grant, holds) {
            Released::Kept { holds } => {
                self.update(env.now, fence, GrantChange::holds(holds), until);
            }
            Released::Ended => self.end(env, fence, LockEvent::TakenBack),
        }
    }
}
