//! Judges whether a request, of a command or of a waiter, can have a lock now (`judge`), and makes the grants (`grant_all`).
//!
//! A new grant has to fit and to be next (at the head of the queue, or while nobody waits). It also waits for the end of a grace, and until
//! all that is over at the lock has been ended (`is_settled`). An upgrade has to fit, and waits for the end of a grace. A re-entry that is
//! no upgrade waits for none of this.

use super::grants::{Decision, Kind, LockEvent, Verdict};
use super::queue::RequestId;
use super::step::{Env, Site};
use crate::lock::{self, AcquireRequest, Acquired, Deadline, Fence, Got, GrantChange, ReentryError};

/// Grants all locks as decided. All new grants have the same fence. Returns the end of the lease that ends first; `None` if there are no
/// more fences.
pub(super) fn grant_all<C: Copy>(
    env: &mut Env<'_, C>,
    sites: &mut [Site<'_>],
    ask: &AcquireRequest<'_>,
    how: LockEvent,
) -> Option<Deadline> {
    let is_new = sites.iter().any(|site| site.verdict.is_new());
    let new = if is_new { Some(env.fences.next(env.now.micros)?) } else { None };
    let mut first = Deadline::Never;
    for site in sites {
        let Verdict::Fits(decision) = site.verdict else { continue };
        let fence = match decision.kind {
            Kind::New => new?,
            Kind::Reentry(fence) | Kind::Upgrade(fence) => fence,
        };
        site.grant(env, ask, fence, decision, how);
        first = first.min(decision.until);
    }
    Some(first)
}

impl Site<'_> {
    /// Decides about a request. `queued` is its number, if it is in the queue.
    #[inline(always)]
    pub(super) fn judge<C: Copy>(
        &self,
        env: &Env<'_, C>,
        ask: &AcquireRequest<'_>,
        queued: Option<RequestId>,
    ) -> Result<Verdict, ReentryError> {
        let (held, others) = self.grants.seen_by(&ask.owner);
        let its = held.map(|held| (held.grant.fence(), held.grant.room()));
        let decided = lock::decide_acquire(held, others, ask, env.limits, env.now.start)?;
        let is_next = self.lock.queue.is_empty() || queued.is_some() && self.lock.head() == queued;
        let grace = env.grace.grants > 0;
        let verdict = match (decided, its) {
            (Acquired::Granted { .. }, _) if grace => Verdict::Taken { upgrade: None, grace },
            // A failover may have lost grants for which the upgraded grant would have no room.
            (Acquired::Upgraded { .. }, Some((fence, _))) if grace => {
                Verdict::Taken { upgrade: Some(fence), grace }
            }
            (Acquired::Granted { slot, deadline: until }, _) if is_next => {
                Verdict::Fits(Decision { kind: Kind::New, holds: 1, room: ask.room, slot, until })
            }
            (Acquired::Reentered { holds, slot, deadline }, Some((fence, room))) => {
                let until = self.lease_of(fence, deadline);
                Verdict::Fits(Decision { kind: Kind::Reentry(fence), holds, room, slot, until })
            }
            (Acquired::Upgraded { holds, slot, deadline }, Some((fence, room))) => {
                let until = self.lease_of(fence, deadline);
                let (kind, room) = (Kind::Upgrade(fence), room.min(ask.room));
                Verdict::Fits(Decision { kind, holds, room, slot, until })
            }
            (Acquired::UpgradeRefused, its) => {
                Verdict::Taken { upgrade: its.map(|(fence, _)| fence), grace: false }
            }
            _ => Verdict::TAKEN,
        };
        Ok(if self.is_settled { verdict } else { verdict.unless_settled() })
    }

    /// The lease after a re-entry. Only a session may renew a lease whose renewals replicas have to confirm.
    fn lease_of(&self, fence: Fence, asked: Deadline) -> Deadline {
        let held = self.grants.with_fence(fence).filter(|_| self.lock.is_synced(fence));
        held.map_or(asked, |held| held.deadline)
    }

    fn grant<C: Copy>(
        &mut self,
        env: &Env<'_, C>,
        ask: &AcquireRequest<'_>,
        fence: Fence,
        decision: Decision,
        how: LockEvent,
    ) {
        let Decision { kind, holds, room, slot, until } = decision;
        self.got = Some(Got { fence, holds, slot });
        if kind == Kind::New {
            if !room.is_exclusive() {
                self.note(LockEvent::Shared);
            }
            let effect = self.grants.put(ask.grant(fence, slot, env.now), until);
            self.effects.push(effect);
            return self.note(how);
        }
        // Other clients of this owner may wait for another slot, which they can't get any more once the grant has its first slot.
        let held = self.grants.with_fence(fence);
        self.again |= slot.is_some() && held.is_some_and(|held| held.grant.slot().is_none());
        let change = GrantChange { holds: Some(holds), room: Some(room), slot, label: ask.label() };
        self.update(env.now, fence, change, until);
        self.note(LockEvent::Reentered);
        if kind != Kind::Reentry(fence) {
            self.note(LockEvent::Upgraded);
        }
    }
}
