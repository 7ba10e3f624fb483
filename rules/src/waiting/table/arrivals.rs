//! Waiters that arrive, and waiters that are granted their locks.

use super::lock_id::LockId;
use super::outgoing::Notice;
use super::queue::RequestId;
use super::waiter::{Answer, Arrival, Phase, RequestedLocks, WaitKind, Waiter};
use super::{LockRef, WaitTable};
use crate::lock::{Deadline, Got, Millis, Now};

impl<C: Copy> WaitTable<C> {
    /// Puts a waiter into the queues of all these locks. `several` says whether the request is for several locks at once. If so, `stuck` is
    /// the index, in `all`, of the lock that keeps the waiter waiting.
    pub(crate) fn join(
        &mut self,
        all: &[LockRef<'_>],
        several: bool,
        stuck: usize,
        request: RequestId,
        arrival: Arrival<C>,
    ) {
        let mut enter = |at: &LockRef<'_>| {
            let (id, entry) = self.locks.open(*at);
            entry.queue.join(request, arrival.ask.owner.clone());
            self.observers.busiest.count(&id, arrival.since);
            if entry.want() {
                self.outgoing.push_back(Notice::Wanted(id.clone()));
            }
            id
        };
        let locks = match all {
            [at] if !several => RequestedLocks::one(enter(at)),
            _ => RequestedLocks::several(all.iter().map(enter), stuck),
        };
        if let WaitKind::Blocked(_) = arrival.way {
            self.connections.block(arrival.client_id, request);
        }
        self.waits().add(request, Waiter::new(locks, arrival));
    }

    /// Notes that a waiter has been granted all its locks (`got` has the grant of each lock), and takes the waiter out of its queues.
    /// `until` is the end of the lease that ends first. Returns how long the waiter waited, in ms.
    pub(crate) fn grant(
        &mut self,
        request: RequestId,
        got: &[Got],
        until: Deadline,
        now: Now,
    ) -> Option<Millis> {
        let answer = Answer::Granted { until };
        let granted = self.waits().change(request, |waiter| {
            if waiter.phase != Phase::Queued {
                return None;
            }
            for (lock, got) in waiter.locks.all_mut().iter_mut().zip(got) {
                lock.got = Some(*got);
            }
            waiter.go_on(waiter.confirm.map_or(Phase::Answered(answer), |_| Phase::Unconfirmed(answer)));
            waiter.end_by(waiter.confirm.map(|confirm| confirm.ends(until, now.millis())));
            let waited = now.micros.saturating_sub(waiter.since) / 1000;
            Some((waited, waiter.phase, waiter.channel().is_some()))
        });
        debug_assert!(granted.flatten().is_some(), "{request:?} is in a queue");
        let (waited, next, is_place) = granted.flatten()?;
        self.left(request, next);
        if matches!(next, Phase::Answered(_)) {
            self.outgoing.push_back(Notice::Waiter(request));
        }
        if is_place {
            self.grant_to_place(request, until, now);
        }
        Some(waited)
    }

    /// Starts the time in which the owner of a place (a waiter that is not blocked) has to claim its grants. Also notes the owner's channel
    /// for messages about these grants, so that the owner is told if one of them ends.
    fn grant_to_place(&mut self, request: RequestId, until: Deadline, now: Now) {
        let granted = self.waits().change(request, |waiter| {
            if let Deadline::At(last) = until {
                // The grant's lease may be shorter than the owner asked for, because of a setting. `ask.lease` becomes the grant's lease,
                // because a `start` message tells the owner `ask.lease`.
                waiter.ask.lease = waiter.ask.lease.min(last.saturating_sub(now.start));
            }
            // The time to claim ends a little after the lease, even if the end of the lease was rounded up by a millisecond. So the grant
            // ends first, because its lease is over, and the owner gets a message about this.
            waiter.end_by(Some(now.millis().saturating_add(waiter.ask.lease).saturating_add(3)));
            Some((waiter.locks.clone(), waiter.ask.owner.clone(), waiter.channel()?.clone()))
        });
        let Some((locks, owner, channel)) = granted.flatten() else { return };
        for lock in locks.all() {
            if let Some(fence) = lock.fence() {
                self.listeners().watch_unclaimed(lock.id.to_ref(), fence, owner.clone(), channel.clone());
            }
        }
    }

    /// Keeps a client blocked until replicas have confirmed its answer. `got` has the client's grant of each lock.
    pub(crate) fn hold_answer(
        &mut self,
        request: RequestId,
        arrival: Arrival<C>,
        several: bool,
        got: &[(LockRef<'_>, Got)],
        answer: Answer,
    ) {
        let (Answer::Granted { until } | Answer::Extended { until }) = answer else { return };
        debug_assert!(arrival.confirm.is_some(), "{request:?}");
        let (Some(confirm), now) = (arrival.confirm, arrival.since / 1000) else { return };
        let is_grant = matches!(answer, Answer::Granted { .. });
        let ids: Vec<LockId> = got.iter().map(|(at, _)| self.locks.id(*at)).collect();
        let locks = match ids.first() {
            Some(id) if !several => RequestedLocks::one(id.clone()),
            _ => RequestedLocks::several(ids.into_iter(), 0),
        };
        self.connections.block(arrival.client_id, request);
        let mut waiter = Waiter::new(locks, arrival);
        waiter.phase = Phase::Unconfirmed(answer);
        let hold = waiter.hold(request);
        for (lock, (at, got)) in waiter.locks.all_mut().iter_mut().zip(got) {
            lock.got = Some(*got);
            if is_grant {
                // If the client goes away before it is told of its grant, the module takes this hold (one acquire within the grant) back.
                self.locks.open(*at).1.add_pending(got.fence, hold);
            }
        }
        waiter.end_by(Some(confirm.ends(until, now)));
        self.waits().add(request, waiter);
    }
}
