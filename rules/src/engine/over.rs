//! What is over when a step begins: leases that have ended, grants that something else has removed, holds of clients that went away before
//! they were told, and sessions whose connections have closed.

use super::held::Effect;
use super::step::{Env, Site};
use crate::lock::{self, Deadline, Fence, GrantChange, Released};
use crate::waiting::{LockEvent, MessageKind};

impl Site<'_> {
    pub(super) fn end_what_is_over<C: Copy>(&mut self, env: &mut Env<'_, C>) {
        self.end_lapsed(env);
        if std::mem::take(&mut self.lock.recheck) {
            self.renew_shortened();
            self.end_missing(env);
        } else if self.lock.records().len() == 1 {
            self.end_missing(env);
        }
        env.table.end_closed(self.at, &mut self.lock);
        while let Some((_, fence)) = self.lock.first_due().filter(|(time, _)| *time <= env.now.millis()) {
            match self.lock.change(fence, |record| std::mem::take(&mut record.lost)) {
                Some(0) => self.settle_session(env, fence),
                Some(holds) => self.take_back(env, fence, holds),
                None => return,
            }
        }
    }

    /// Ends lapsed grants among several. (The server itself ends the only one.)
    fn end_lapsed<C: Copy>(&mut self, env: &mut Env<'_, C>) {
        if !self.grants.are_several() {
            return;
        }
        let (value, until, now) = (self.grants.value.as_ref(), self.grants.until, env.now.millis());
        let lapsed: Vec<Fence> = value.into_iter().flat_map(|value| value.lapsed(until, now)).collect();
        for fence in &lapsed {
            self.grants.end(*fence);
            self.note(LockEvent::Lapsed);
            env.table.ended(self.at, &mut self.lock, *fence, Some(MessageKind::Lost));
        }
        self.effects.extend((!lapsed.is_empty()).then_some(Effect::Lapsed(now)));
    }

    /// Drops what is known of grants that are not in the key any more.
    fn end_missing<C: Copy>(&mut self, env: &mut Env<'_, C>) {
        let is_missing = |fence: &Fence| self.grants.with_fence(*fence).is_none();
        let known =
            self.lock.records().map(|record| record.fence).chain(self.lock.upgrade.iter().map(|it| it.0));
        let missing: Vec<Fence> = known.filter(is_missing).collect();
        missing
            .into_iter()
            .for_each(|fence| env.table.ended(self.at, &mut self.lock, fence, Some(MessageKind::Lost)));
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
            self.lock.change(fence, |record| record.session.iter_mut().for_each(|its| its.look_at = 0));
        }
    }

    fn take_back<C: Copy>(&mut self, env: &mut Env<'_, C>, fence: Fence, holds: u32) {
        let Some(held) = self.grants.with_fence(fence) else { return };
        let until = held.deadline;
        match lock::take_back(held.grant, holds) {
            Released::Kept { holds } => self.update(env.now, fence, GrantChange::holds(holds), until),
            Released::Ended => self.end(env, fence, LockEvent::TakenBack),
        }
    }
}
