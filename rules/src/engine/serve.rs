//! Serves the queue: grants the lock to waiters, in order, as far as they fit.

use super::acquire::{Conflict, Kind};
use super::step::Step;
use super::table::{Answer, Pending, Phase};
use crate::lock::{Owner, Value};
use crate::waiting::{LockEvent, RequestId};

/// The most waiters that one step serves. The next step serves the rest.
const MOST_SERVED: usize = 500;

#[derive(PartialEq, Eq)]
enum Served {
    Granted,
    Answered,
    Waits,
}

impl<C: Copy> Step<'_, C> {
    /// Grants the lock to the waiters at the head of the queue, as far as they fit.
    pub(super) fn serve(&mut self) {
        if self.lock.queue.is_empty() {
            return;
        }
        if let Some(Value::One(grant)) = &self.site.grants.value {
            let owner = grant.owner().into_owned();
            self.reenter(&owner);
        }
        for _ in 0..MOST_SERVED {
            let head = self.lock.head();
            let Some((served, owner, is_alone)) = head.and_then(|head| self.serve_one(head)) else { return };
            if served != Served::Answered {
                self.reenter(&owner);
            }
            if served == Served::Waits || served == Served::Granted && is_alone {
                return;
            }
        }
        self.again = true;
    }

    /// Lets the waiters of an owner that holds the lock re-enter, wherever they are in the queue.
    fn reenter(&mut self, owner: &Owner<'static>) {
        let mut seen = None;
        while let Some(request) = self.lock.queue.next_of(owner, seen) {
            if self.site.grants.grant_of(owner).is_none() {
                return;
            }
            seen = Some(request);
            self.serve_one(request);
        }
    }

    /// Lets the waiters of all holders re-enter, if somebody has changed the key.
    pub(super) fn reenter_all(&mut self) {
        if self.site.grants.are_several() {
            let owners: Vec<_> = self.site.grants.all().map(|held| held.grant.owner().into_owned()).collect();
            owners.iter().for_each(|owner| self.reenter(owner));
        }
    }

    /// Serves a waiter: grants it the lock, lets it wait, or has it told that it can never have it. Returns its owner, and whether it asks
    /// to be alone.
    fn serve_one(&mut self, request: RequestId) -> Option<(Served, Owner<'static>, bool)> {
        let ask = self.site.table.waiters.get(&request)?.ask.clone();
        let served = match self.judge(&ask, Some(request)) {
            Ok(Ok(decision)) => {
                let kind = decision.kind;
                let Some(fence) = self.fence_for(&decision) else {
                    return Some((Served::Waits, ask.owner, true));
                };
                let (got, until) = self.grant(&ask, fence, decision, LockEvent::HandedOver);
                self.answer(request, Answer::Granted(got, until));
                let own = kind == Kind::New || !ask.once;
                self.lock.pending.push(Pending { request, fence, own, lost: false });
                if kind == Kind::New { Served::Granted } else { Served::Answered }
            }
            Ok(Err(Conflict { upgrade: Some(fence) })) if self.is_upgraded_by_another(fence) => {
                self.site.note(LockEvent::Deadlocked);
                self.answer(request, Answer::Deadlock)
            }
            Ok(Err(Conflict { upgrade })) => {
                upgrade.into_iter().for_each(|fence| self.upgrade_first(fence, request));
                Served::Waits
            }
            Err(why) => self.answer(request, Answer::NoReentry(why)),
        };
        Some((served, ask.owner, ask.room.is_exclusive()))
    }

    /// Takes a waiter out of the queue, and has it told this answer.
    fn answer(&mut self, request: RequestId, answer: Answer) -> Served {
        if let Some(waiter) = self.site.table.waiters.get(&request) {
            self.lock.leave(request, &waiter.ask.owner);
            if let Answer::Granted(..) = answer {
                let waited = self.site.now.micros.saturating_sub(waiter.since) / 1000;
                self.site.note(LockEvent::Waited(waited));
            }
        }
        self.site.table.go_on(request, Phase::Answered(answer));
        Served::Answered
    }
}
