//! Whether a lock can be granted to a request, and its grant; a client that gets none joins the queue.

use super::step::Step;
use super::table::{Caller, Phase, Waiter};
use crate::lock::{
    self, AcquireRequest, Acquired, Deadline, Fence, Got, GrantChange, Millis, ReentryError, Room, Slot,
};
use crate::waiting::{LockEvent, Refusal, RequestId};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Granted(Got, Deadline),
    /// The server has to block the client, and to say under which handle (`Table::blocked`).
    Waits(RequestId),
    /// The request does not fit, and its client does not want to wait, or can't.
    Taken,
}

/// How a lock is to be granted.
pub(super) struct Decision {
    pub(super) kind: Kind,
    holds: u32,
    room: Room,
    slot: Option<Slot>,
    until: Deadline,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    New,
    Reentry(Fence),
    /// A re-entry with less room, or with the grant's first slot.
    Upgrade(Fence),
}

/// Why a lock can't be granted now. For an upgrade, the grant that its owner has: its waiters go ahead of the queue.
#[derive(Clone, Copy)]
pub(super) struct Conflict {
    pub(super) upgrade: Option<Fence>,
}

impl<C: Copy> Step<'_, C> {
    pub(super) fn acquire(
        &mut self,
        caller: &Caller,
        ask: &AcquireRequest<'_>,
        timeout: Option<Millis>,
    ) -> Result<Outcome, Refusal> {
        self.serve();
        let conflict = match self.judge(ask, None)? {
            Ok(decision) => {
                let fence = self.fence_for(&decision).ok_or(Refusal::NoMoreFences)?;
                let (got, until) = self.grant(ask, fence, decision, LockEvent::Acquired);
                if ask.once {
                    self.lock.share(fence);
                }
                return Ok(Outcome::Granted(got, until));
            }
            Err(conflict) => conflict,
        };
        let refusal = match self.wait(caller, ask, timeout, conflict) {
            Ok(Some(request)) => return Ok(Outcome::Waits(request)),
            Ok(None) => None,
            Err(refusal) => Some(refusal),
        };
        self.site.note(LockEvent::Refused);
        refusal.map_or(Ok(Outcome::Taken), Err)
    }

    /// Puts the client into the queue, if it wants to wait and can.
    fn wait(
        &mut self,
        caller: &Caller,
        ask: &AcquireRequest<'_>,
        timeout: Option<Millis>,
        Conflict { upgrade }: Conflict,
    ) -> Result<Option<RequestId>, Refusal> {
        let Some(timeout) = timeout.filter(|_| caller.may_block) else { return Ok(None) };
        if upgrade.is_some_and(|fence| self.is_upgraded_by_another(fence)) {
            self.site.note(LockEvent::Deadlocked);
            return Err(Refusal::Deadlock);
        }
        if caller.most_waiters.is_some_and(|most| self.lock.queue.len() >= most) {
            return Err(Refusal::MaxWaiters);
        }
        let request = self.site.table.next_request();
        let (ask, since) = (ask.to_owned(), self.site.now.micros);
        self.lock.queue.join(request, ask.owner.clone());
        if let Some(fence) = upgrade {
            self.upgrade_first(fence, request);
        }
        // The millisecond of the arrival was partly over.
        let ends = (timeout > 0).then(|| (since / 1000).saturating_add(timeout).saturating_add(1));
        let (id, client_id) = (self.site.table.open(self.site.at), caller.id);
        let waiter =
            Waiter { id, ask, client: None, client_id, since, ends, phase: Phase::Queued, unblocked: false };
        self.site.table.add(request, waiter);
        Ok(Some(request))
    }

    pub(super) fn is_upgraded_by_another(&self, fence: Fence) -> bool {
        self.lock.upgrade.as_ref().is_some_and(|upgrade| upgrade.0 != fence)
    }

    pub(super) fn upgrade_first(&mut self, fence: Fence, request: RequestId) {
        self.lock.upgrade.get_or_insert_with(|| Box::new((fence, [].into()))).1.insert(request);
    }

    /// Decides about a request. `waits` is its number, if it is in the queue.
    #[inline(always)]
    pub(super) fn judge(
        &self,
        ask: &AcquireRequest<'_>,
        waits: Option<RequestId>,
    ) -> Result<Result<Decision, Conflict>, ReentryError> {
        let (held, others) = self.site.grants.seen_by(&ask.owner);
        let its = held.map(|held| (held.grant.fence(), held.grant.room()));
        let decided = lock::decide_acquire(held, others, ask, self.site.limits, self.site.now.start)?;
        let is_next = self.lock.queue.is_empty() || waits.is_some() && self.lock.head() == waits;
        Ok(match (decided, its) {
            (Acquired::Granted { slot, deadline: until }, _) if is_next => {
                Ok(Decision { kind: Kind::New, holds: 1, room: ask.room, slot, until })
            }
            (Acquired::Reentered { holds, slot, deadline: until }, Some((fence, room))) => {
                Ok(Decision { kind: Kind::Reentry(fence), holds, room, slot, until })
            }
            (Acquired::Upgraded { holds, slot, deadline: until }, Some((fence, room))) => {
                Ok(Decision { kind: Kind::Upgrade(fence), holds, room: room.min(ask.room), slot, until })
            }
            (Acquired::UpgradeRefused, its) => Err(Conflict { upgrade: its.map(|(fence, _)| fence) }),
            _ => Err(Conflict { upgrade: None }),
        })
    }

    pub(super) fn fence_for(&mut self, decision: &Decision) -> Option<Fence> {
        match decision.kind {
            Kind::New => self.site.fences.next(self.site.now.micros),
            Kind::Reentry(fence) | Kind::Upgrade(fence) => Some(fence),
        }
    }

    #[inline(always)]
    pub(super) fn grant(
        &mut self,
        ask: &AcquireRequest<'_>,
        fence: Fence,
        decision: Decision,
        how: LockEvent,
    ) -> (Got, Deadline) {
        let Decision { kind, holds, room, slot, until } = decision;
        if kind == Kind::New {
            self.site.put(ask.grant(fence, slot, self.site.now), until, how);
        } else {
            // With its first slot, the owner can't get another slot any more, for which others of its clients may wait.
            let held = self.site.grants.with_fence(fence);
            self.again |= slot.is_some() && held.is_some_and(|held| held.grant.slot().is_none());
            let change = GrantChange { holds: Some(holds), room: Some(room), slot, label: ask.label() };
            self.site.update(fence, change, until);
            self.site.note(LockEvent::Reentered);
            if kind != Kind::Reentry(fence) {
                self.site.note(LockEvent::Upgraded);
            }
        }
        (Got { fence, holds, slot }, until)
    }
}
