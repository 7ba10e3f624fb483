//! One step on the locks of a command or a timer: takes their states out of the table, ends what is over, does the command's own work,
//! serves the queues, and gives the states back.
//!
//! What is over (`end_what_is_over`): leases that have ended, grants that something else has removed, holds of clients that went away before
//! they were told, and sessions whose connections have closed. A lapse is noticed here if the lock has several grants. The key of a single
//! grant expires: the server deletes it, and reports this (`keyspace::removals`). For both, `Site::finish` sets the lock's timer. `session`
//! ends a grant whose last renewal replicas have not confirmed in time, if its earlier lease is over.

use super::budget::{CHANGE, END, scan};
use super::grace::{GraceLeft, RETRY};
use super::grants::{Effect, Effects, Grants, LockEvent, Verdict};
use super::lock_id::LockRef;
use super::lock_state::{HeldSince, LockState};
use super::message::MessageKind;
use super::table::Table;
use crate::lock::{self, Deadline, Fence, FenceClock, Got, Grant, GrantChange, Limits, Now, Owner, Released};

/// What a step may use beside its locks.
pub struct Env<'a, C> {
    pub table: &'a mut Table<C>,
    pub fences: &'a mut FenceClock,
    pub limits: Limits,
    /// For how long nothing new is granted, after a start, a promotion or a freeze.
    pub grace: GraceLeft,
    pub now: Now,
    /// Whether a connection with this id is open.
    pub is_open: &'a dyn Fn(u64) -> bool,
}

/// A lock whose key is open for a step.
pub struct Site<'a> {
    pub at: LockRef<'a>,
    pub grants: &'a mut Grants,
    pub effects: &'a mut Effects,
    /// The owner's grant, after an acquire that succeeded.
    pub got: Option<Got>,
    pub(super) lock: LockState,
    pub(super) verdict: Verdict,
    was_held: bool,
    /// Whether a timer was to look at the lock.
    was_due: bool,
    /// Whether all that is over has been ended. If not, because the budget was not enough, the lock counts as taken.
    pub(super) is_settled: bool,
    /// Whether `serve` has to check for every holder whether its waiters can re-enter.
    pub(super) all_may_reenter: bool,
    /// Whether there is more to do, so that a timer looks at the lock at once.
    pub(super) again: bool,
    /// Whether `finish` leaves the queue alone: it has just been served, or a timer will serve it (`again`). A timer that is set stays set.
    pub(super) skips_serving: bool,
}

/// Runs a step on one lock.
#[inline(never)]
pub(super) fn step<C: Copy, R>(
    env: &mut Env<'_, C>,
    site: &mut Site<'_>,
    body: impl FnOnce(&mut Env<'_, C>, &mut Site<'_>) -> R,
) -> R {
    site.begin(env);
    let result = body(env, site);
    site.finish(env);
    env.table.end_step();
    result
}

/// Runs a step on several locks.
pub(super) fn step_on_all<C: Copy, R>(
    env: &mut Env<'_, C>,
    sites: &mut [Site<'_>],
    body: impl FnOnce(&mut Env<'_, C>, &mut [Site<'_>]) -> R,
) -> R {
    sites.iter_mut().for_each(|site| site.begin(env));
    let result = body(env, sites);
    sites.iter_mut().for_each(|site| site.finish(env));
    env.table.end_step();
    result
}

/// Brings a lock up to date, whatever has happened to it.
pub fn settle<C: Copy>(env: &mut Env<'_, C>, site: &mut Site<'_>) {
    step(env, site, |_, _| ());
}

impl<'a> Site<'a> {
    pub fn new(at: LockRef<'a>, grants: &'a mut Grants, effects: &'a mut Effects) -> Self {
        let (lock, verdict) = (LockState::new(), Verdict::TAKEN);
        Self {
            at,
            grants,
            effects,
            got: None,
            lock,
            verdict,
            was_held: false,
            was_due: false,
            is_settled: true,
            all_may_reenter: false,
            again: false,
            skips_serving: false,
        }
    }

    fn begin<C: Copy>(&mut self, env: &mut Env<'_, C>) {
        env.table.take(self.at, &mut self.lock);
        self.was_held = self.grants.value.is_some();
        self.was_due = self.lock.recheck || self.lock.wake.is_some_and(|wake| wake <= env.now.millis());
        self.all_may_reenter = self.lock.recheck || self.lock.wake.is_some_and(|wake| wake < 0);
        self.is_settled = self.end_what_is_over(env);
    }

    /// Whether the step has changed the lock, or looked at what something else may have changed.
    pub(super) fn has_changed(&self) -> bool {
        self.was_due || !self.effects.is_empty()
    }

    fn finish<C: Copy>(&mut self, env: &mut Env<'_, C>) {
        if !self.skips_serving {
            // `serve` may set `got` to a waiter's grant, but the caller needs the command's own.
            let got = self.got;
            self.serve(env);
            self.got = got;
        }
        if self.was_held && self.grants.value.is_none() {
            // Nothing else that happened to the key matters any more.
            self.effects.retain(|effect| matches!(effect, Effect::Event(_) | Effect::Lapse(..)));
            self.effects.push(Effect::Free);
        }
        self.again |= !self.is_settled || self.lock.recheck;
        let now = env.now.millis();
        let lock = &mut self.lock;
        let is_watched = !lock.queue.is_empty() || lock.listening > 0 || self.grants.are_several();
        // The key expires after its last millisecond.
        let lapse = match self.grants.first_end().filter(|_| is_watched) {
            Some(Deadline::At(last)) => Some(last.max(now).saturating_add(1)),
            _ => None,
        };
        let due = lock.first_due().map(|(time, _)| time);
        // A new value of the setting may end the grace earlier.
        let grace = Some(env.grace.grants.min(RETRY)).filter(|left| *left > 0 && !lock.queue.is_empty());
        let grace = grace.map(|left| now.saturating_add(left));
        // If this step did not serve the queue, a timer that was set for the lock, and is not due yet, stays. It may be the only one that
        // will serve the queue, for example if it was set for the end of a grace, and the grace has ended early.
        let later = lock.wake.filter(|_| self.skips_serving && !self.was_due);
        let again = self.again.then_some(0);
        lock.wake = again.into_iter().chain(later).chain(lapse).chain(due).chain(grace).min();
        if lock.held_since.0.is_none() && !lock.queue.is_empty() {
            let oldest = self.grants.all().next().map_or(0, |held| held.grant.age(now));
            lock.held_since = HeldSince::new(now.saturating_sub(oldest));
        }
        env.table.put(self.at, lock);
    }

    pub(super) fn note(&mut self, event: LockEvent) {
        self.effects.push(Effect::Event(event));
    }

    /// Changes a grant. If the grant's session would renew the new lease too late, the session renews it earlier.
    pub(super) fn update(&mut self, now: Now, fence: Fence, change: GrantChange<'_>, until: Deadline) {
        self.effects.extend(self.grants.update(fence, change, until));
        self.lock.change(fence, |record| {
            record.session.iter_mut().for_each(|session| session.renew_before(until, now.millis()));
        });
    }

    /// Ends a grant. The queue is served when the step ends.
    pub(super) fn end<C: Copy>(&mut self, env: &mut Env<'_, C>, fence: Fence, why: LockEvent) {
        self.effects.extend(self.grants.end(fence));
        self.note(why);
        let lost = !matches!(why, LockEvent::Released | LockEvent::TakenBack);
        let kind = lost.then_some(MessageKind::Lost as fn(Fence) -> MessageKind);
        env.table.ended(self.at, &mut self.lock, fence, kind);
    }
}

/// What is over when a step begins.
impl Site<'_> {
    /// Returns whether the budget was enough for all that is over. Timers do the rest.
    fn end_what_is_over<C: Copy>(&mut self, env: &mut Env<'_, C>) -> bool {
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
