//! One step on one lock: a command, or a look of a timer.

use super::acquire::Outcome;
use super::held::{Effect, Grants};
use super::table::{Caller, LockState, Table};
use crate::lock::{
    self, AcquireRequest, Deadline, Fence, FenceClock, Got, Grant, GrantChange, Limits, Millis, NotHeld, Now,
    Released, SlotRequest, Value,
};
use crate::waiting::{ExtendRequest, LockEvent, LockRef, Refusal, ReleaseRequest};

/// A lock, and what a step on it may use.
pub struct Site<'a, C> {
    pub at: LockRef<'a>,
    pub grants: &'a mut Grants,
    pub table: &'a mut Table<C>,
    pub fences: &'a mut FenceClock,
    pub limits: Limits,
    pub now: Now,
    pub effects: &'a mut Vec<Effect>,
}

pub(super) struct Step<'a, C> {
    pub(super) site: Site<'a, C>,
    pub(super) lock: LockState,
    /// Whether there is more to do at once.
    pub(super) again: bool,
}

/// Grants the lock to the client, or makes the client wait.
#[inline(always)]
pub fn acquire<C: Copy>(
    mut site: Site<'_, C>,
    caller: &Caller,
    ask: &AcquireRequest<'_>,
    timeout: Option<Millis>,
) -> Result<Outcome, Refusal> {
    if site.grants.value.is_none() && site.table.get(site.at).is_none() {
        // Most acquires: a free lock of which nothing is known.
        let until = ask.new_deadline(site.limits, site.now.start);
        let fence = site.fences.next(site.now.micros).ok_or(Refusal::NoMoreFences)?;
        let slot = ask.slot.map(SlotRequest::alone);
        site.put(ask.grant(fence, slot, site.now), until, LockEvent::Acquired);
        return Ok(Outcome::Granted(Got { fence, holds: 1, slot }, until));
    }
    step(site, |step| step.acquire(caller, ask, timeout))
}

/// Releases one hold or all. Returns how many are left.
#[inline(always)]
pub fn release<C: Copy>(site: Site<'_, C>, given: ReleaseRequest<'_>) -> Result<u32, NotHeld> {
    if let Some(Value::One(grant)) = &site.grants.value
        && site.table.get(site.at).is_none()
        && grant.owner() == *given.owner
        && lock::decide_release(grant, given.fence, given.all)? == Released::Ended
    {
        // Most releases.
        site.grants.value = None;
        site.effects.extend([Effect::Event(LockEvent::Released), Effect::Free]);
        return Ok(0);
    }
    step(site, |step| step.release(given))
}

/// Sets the end of the owner's lease.
pub fn extend<C: Copy>(site: Site<'_, C>, longer: &ExtendRequest<'_>) -> Result<Deadline, Refusal> {
    step(site, |step| step.extend(longer))
}

/// Ends the grant with this fence, or all grants.
pub fn break_<C: Copy>(site: Site<'_, C>, fence: Option<u64>) -> Vec<Grant> {
    step(site, |step| {
        let meant = |grant: &&Grant| fence.is_none_or(|fence| grant.fence().get() == fence);
        let broken: Vec<Grant> =
            step.site.grants.all().map(|held| held.grant).filter(meant).cloned().collect();
        broken.iter().for_each(|grant| step.end(grant.fence(), LockEvent::Broken));
        broken
    })
}

/// Brings a lock up to date, whatever has happened to it.
pub fn settle<C: Copy>(site: Site<'_, C>) {
    step(site, |step| step.reenter_all());
}

/// Takes the state of a lock, ends what is over, runs `body`, serves the queue, and gives the state back: sets its timer to when its first
/// lease ends.
#[inline(never)]
fn step<C: Copy, R>(site: Site<'_, C>, body: impl FnOnce(&mut Step<'_, C>) -> R) -> R {
    let (lock, was_held) = (site.table.take(site.at), site.grants.value.is_some());
    let mut step = Step { site, lock, again: false };
    step.end_what_is_over();
    let result = body(&mut step);
    step.serve();
    let Step { site, mut lock, again } = step;
    if was_held && site.grants.value.is_none() {
        // Nothing else that happened to the key matters any more.
        site.effects.retain(|effect| matches!(effect, Effect::Event(_)));
        site.effects.push(Effect::Free);
    }
    let now = site.now.millis();
    lock.wake = match site.grants.first_end().filter(|_| !lock.queue.is_empty()) {
        _ if again => Some(now),
        // The key expires after its last millisecond.
        Some(Deadline::At(last)) => Some(last.max(now).saturating_add(1)),
        _ => None,
    };
    site.table.put(site.at, lock);
    result
}

impl<C> Site<'_, C> {
    pub(super) fn note(&mut self, event: LockEvent) {
        self.effects.push(Effect::Event(event));
    }

    /// Makes a grant.
    #[inline(always)]
    pub(super) fn put(&mut self, grant: Grant, until: Deadline, how: LockEvent) {
        if !grant.room().is_exclusive() {
            self.note(LockEvent::Shared);
        }
        let effect = self.grants.put(grant, until);
        self.effects.push(effect);
        self.note(how);
    }

    pub(super) fn update(&mut self, fence: Fence, change: GrantChange<'_>, until: Deadline) {
        self.effects.extend(self.grants.update(fence, change, until));
    }
}

impl<C: Copy> Step<'_, C> {
    /// Ends lapsed grants, and takes back the holds of clients that have gone away before they were told.
    fn end_what_is_over(&mut self) {
        let now = self.site.now.millis();
        if self.site.grants.are_several() {
            let (value, until) = (self.site.grants.value.as_ref(), self.site.grants.until);
            let lapsed: Vec<Fence> = value.into_iter().flat_map(|value| value.lapsed(until, now)).collect();
            for fence in &lapsed {
                self.site.grants.end(*fence);
                self.site.note(LockEvent::Lapsed);
            }
            self.site.effects.extend((!lapsed.is_empty()).then_some(Effect::Lapsed(now)));
        }
        let grants = &*self.site.grants;
        self.lock.pending.retain(|hold| grants.with_fence(hold.fence).is_some());
        self.lock.upgrade.take_if(|upgrade| grants.with_fence(upgrade.0).is_none());
        while let Some(number) = self.lock.pending.iter().position(|hold| hold.lost) {
            let fence = self.lock.pending.remove(number).fence;
            let Some(held) = self.site.grants.with_fence(fence) else { continue };
            let until = held.deadline;
            match lock::take_back(held.grant, 1) {
                Released::Kept { holds } => self.site.update(fence, GrantChange::holds(holds), until),
                Released::Ended => self.end(fence, LockEvent::TakenBack),
            }
        }
    }

    /// Ends a grant. The queue is served when the step ends.
    fn end(&mut self, fence: Fence, why: LockEvent) {
        self.site.effects.extend(self.site.grants.end(fence));
        self.site.note(why);
        self.lock.ended(fence);
    }

    fn release(&mut self, ReleaseRequest { owner, fence, all }: ReleaseRequest<'_>) -> Result<u32, NotHeld> {
        let grants = &*self.site.grants;
        let grant = grants.grant_of(owner).ok_or_else(|| NotHeld::without_grant(grants.value.is_some()))?;
        let (its, released) = (grant.fence(), lock::decide_release(grant, fence, all)?);
        match released {
            Released::Kept { holds } => {
                let until = grants.with_fence(its).map_or(Deadline::Never, |held| held.deadline);
                self.site.update(its, GrantChange::holds(holds), until);
                Ok(holds)
            }
            Released::Ended => {
                self.end(its, LockEvent::Released);
                Ok(0)
            }
        }
    }

    fn extend(&mut self, longer: &ExtendRequest<'_>) -> Result<Deadline, Refusal> {
        self.serve();
        let (grants, limits) = (&*self.site.grants, self.site.limits);
        let refuse = |why| Refusal::NotHeld(why, None);
        let held = grants.seen_by(longer.owner).0;
        let held = held.ok_or_else(|| refuse(NotHeld::without_grant(grants.value.is_some())))?;
        let until = lock::decide_extend(held, longer.fence, longer.lease, limits, self.site.now.start)
            .map_err(refuse)?;
        let (fence, holds) = (held.grant.fence(), held.grant.holds());
        self.site.update(fence, GrantChange::NONE, until);
        // The owner knows that it holds the lock, so one hold stays, even if all clients that are still to be told go away.
        let mut own = self.lock.pending.iter_mut().filter(|hold| hold.fence == fence && hold.own);
        let (first, more) = (own.next(), own.count());
        if let Some(first) = first.filter(|_| more + 1 >= holds as usize) {
            first.own = false;
        }
        self.site.note(LockEvent::Extended);
        Ok(until)
    }
}
