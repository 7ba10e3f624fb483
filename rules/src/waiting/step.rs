//! One step on the locks of a command or a timer: takes their states out of the table, ends what is over, does the command's own work,
//! serves the queues, and gives the states back.

use super::grace::{GraceLeft, RETRY};
use super::grants::{Effect, Effects, Grants, LockEvent, Verdict};
use super::lock_id::LockRef;
use super::lock_state::{HeldSince, LockState};
use super::message::MessageKind;
use super::table::Table;
use crate::lock::{Deadline, Fence, FenceClock, Got, GrantChange, Limits, Now};

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
