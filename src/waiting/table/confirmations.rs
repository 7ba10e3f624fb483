//! Answers that wait until replicas have confirmed them.

use std::num::NonZeroU32;

use super::WaitTable;
use super::grants::Synced;
use super::lock_id::{LockId, LockRef};
use super::outgoing::Notice;
use super::queue::RequestId;
use super::replication::{Confirm, Offset, Pending, What, confirmed_by};
use super::untold::UntoldHold;
use super::waiter::{Answer, Arrival, Confirmed, Phase, RequestedLocks, Waiter};
use crate::lock::{Deadline, Got, Millis};

impl<C: Copy> WaitTable<C> {
    /// One of those that enough replicas have; it is over with that. `acks`: how far each is, the one that is farthest first.
    pub(crate) fn next_confirmed(&mut self, acks: &[Offset]) -> Option<Confirmed> {
        let request = self.replication.confirmed(acks)?;
        let pending = self.end_pending(request)?;
        Some(match pending.what {
            What::Answer => {
                let locks = self.waiters.get(&request).map(|waiter| waiter.locks.clone());
                Confirmed::Answer(request, locks?)
            }
            What::Renewal { id, fence, .. } => {
                self.change(id.to_ref(), |entry| entry.change_synced(fence, |synced| synced.pending = None));
                Confirmed::Renewal
            }
        })
    }

    /// A client that waited for replicas is told what it was to be told. `until`: the end of the lease that ends first; none: it does
    /// not hold any more what it was granted.
    pub(crate) fn answer_confirmed(&mut self, request: RequestId, until: Option<Deadline>) {
        let phase = self.waiters.get(&request).map(|waiter| waiter.phase);
        let Some(Phase::Unconfirmed(answer)) = phase else { return };
        // A lease that has been made longer since is not confirmed with that.
        let answer = match (answer, until) {
            (Answer::Extended { until: confirmed }, Some(until)) => {
                Answer::Extended { until: until.min(confirmed) }
            }
            (Answer::Granted { until: confirmed }, Some(until)) => {
                Answer::Granted { until: until.min(confirmed) }
            }
            (Answer::Extended { .. }, None) => Answer::NotHeld,
            _ => Answer::Gone,
        };
        if until.is_none() {
            self.take_back(request);
        }
        self.set_answer(request, answer);
        self.outgoing.push_back(Notice::Waiter(request));
    }

    fn set_answer(&mut self, request: RequestId, answer: Answer) {
        if let Some(waiter) = self.waiters.get_mut(&request) {
            waiter.phase = Phase::Answered(answer);
        }
    }

    /// Has a client blocked that is told once replicas have confirmed it. `got`: what it has of each of these locks.
    pub(crate) fn hold_answer(
        &mut self,
        request: RequestId,
        arrival: Arrival<C>,
        several: bool,
        got: &[(LockRef<'_>, Got)],
        answer: Answer,
    ) {
        let (Answer::Granted { until } | Answer::Extended { until }) = answer else { return };
        let (Some(confirm), now) = (arrival.confirm, arrival.since / 1000) else { return };
        let is_grant = matches!(answer, Answer::Granted { .. });
        let ids: Vec<LockId> = got.iter().map(|(at, _)| self.id(*at).unwrap_or_else(|| at.to_id())).collect();
        let locks = match ids.first() {
            Some(id) if !several => RequestedLocks::one(id.clone()),
            _ => RequestedLocks::several(ids.into_iter(), 0),
        };
        self.connections.block(arrival.client_id, request);
        let mut waiter = Waiter::new(locks, arrival);
        waiter.phase = Phase::Unconfirmed(answer);
        let (locks, binds) = (got.len() as u32, waiter.ask.session);
        let hold = UntoldHold { request, locks, own: true, binds, to_claim: false };
        for (lock, (at, got)) in waiter.locks.all_mut().iter_mut().zip(got) {
            lock.got = Some(*got);
            if is_grant {
                // Its hold is taken back if it can't be told.
                self.open_entry(*at).1.add_untold(got.fence, hold);
            }
        }
        self.waiters.insert(request, waiter);
        self.await_replicas(request, confirm, until, now);
    }

    /// A client is told, once replicas have confirmed it, or its time is up.
    pub(super) fn await_replicas(
        &mut self,
        request: RequestId,
        confirm: Confirm,
        until: Deadline,
        now: Millis,
    ) {
        let ends = confirmed_by(confirm.within, until, now);
        self.add_pending(request, confirm.replicas, ends, What::Answer);
    }

    pub(super) fn add_pending(&mut self, request: RequestId, replicas: NonZeroU32, ends: Millis, what: What) {
        self.timers.set_timeout(request, Some(ends));
        self.replication.add(request, Pending { replicas, offset: None, what, ends });
    }

    pub(super) fn end_pending(&mut self, request: RequestId) -> Option<Pending> {
        let pending = self.replication.remove(request)?;
        self.timers.cancel_timeout(request, Some(pending.ends));
        Some(pending)
    }

    /// Nothing is to be confirmed any more for a client, since it has gone or been told.
    pub(super) fn stop_awaiting(&mut self, request: RequestId) {
        if !self.replication.is_empty() {
            self.end_pending(request);
        }
    }

    /// The time is up in which replicas were to confirm something: a session's lease is to be set back; or a client has nothing, and
    /// is to be told so, which is true then.
    pub(super) fn end_unconfirmed(&mut self, request: RequestId) -> bool {
        match self.end_pending(request).map(|pending| pending.what) {
            None => false,
            Some(What::Renewal { id, fence, moved }) => {
                let failed = |synced: &mut Synced| (synced.pending, synced.failed) = (None, Some(moved));
                if self.change(id.to_ref(), |entry| entry.change_synced(fence, failed)).flatten().is_some() {
                    self.recheck_by(id.to_ref(), 0);
                }
                false
            }
            Some(What::Answer) => {
                let phase = self.waiters.get(&request).map(|waiter| waiter.phase);
                let Some(Phase::Unconfirmed(answer)) = phase else { return false };
                let answer = match answer {
                    Answer::Extended { .. } => Answer::ExtensionUnconfirmed,
                    _ => Answer::GrantUnconfirmed,
                };
                self.take_back(request);
                self.set_answer(request, answer);
                true
            }
        }
    }
}
