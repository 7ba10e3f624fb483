//! Waiters that come, and waiters that are granted what they wait for.

use super::queue::RequestId;
use super::replication::Awaited;
use super::waiter::{Answer, Arrival, Phase, RequestedLocks, WaitKind, Waiter};
use super::{LockRef, WaitTable};
use crate::lock::{Deadline, Got, Micros, Millis};

impl<C: Copy> WaitTable<C> {
    /// Puts a waiter into the queues of all these locks: one, or `several` at once, of which that of the number `stuck` keeps it waiting.
    pub(crate) fn join(
        &mut self,
        all: &[LockRef<'_>],
        several: bool,
        stuck: usize,
        request: RequestId,
        arrival: Arrival<C>,
    ) {
        let enter = |at: &LockRef<'_>| {
            let (id, entry) = self.locks.open(*at);
            entry.queue.join(request, arrival.ask.owner.clone());
            self.observers.busiest.count(&id, arrival.since);
            self.listeners().tell_wanted(*at);
            id
        };
        let locks = RequestedLocks::new(all.iter().map(enter), several, stuck);
        match arrival.way {
            WaitKind::Notified(_) => {
                self.connections.add_place(arrival.client_id, request, locks.weight());
            }
            WaitKind::Blocked(_) => self.connections.block(arrival.client_id, request),
        }
        self.waiters.join(request, Waiter::new(locks, arrival));
    }

    /// Grants every lock of a request. Returns how long it waited, in ms.
    pub(crate) fn grant(
        &mut self,
        request: RequestId,
        got: &[Got],
        until: Deadline,
        now: Micros,
    ) -> Option<Millis> {
        let waiter = self.waiters.get_mut(request).filter(|waiter| waiter.phase == Phase::Queued);
        debug_assert!(waiter.is_some(), "{request:?} is in a queue");
        let waiter = waiter?;
        for (lock, got) in waiter.locks.all_mut().iter_mut().zip(got) {
            lock.got = Some(*got);
        }
        let waited = now.saturating_sub(waiter.since) / 1000;
        let (answer, confirm) = (Answer::Granted { until }, waiter.confirm);
        let place =
            waiter.channel().map(|channel| (channel.clone(), waiter.locks.clone(), waiter.ask.clone()));
        match confirm {
            None => self.answer(request, answer),
            Some(confirm) => {
                self.leave(request, Phase::Unconfirmed(answer));
                self.replication.add(Awaited::Answer(request), confirm.replicas);
                self.waiters.end_by(request, confirm.ends(until, now / 1000));
            }
        }
        // A place has so long to claim its grants, and hears what becomes of them.
        if let Some((channel, locks, ask)) = place {
            // After its lease has lapsed, where that is as short: so the lapse is told. Leases may be rounded up by a millisecond.
            self.waiters.end_by(request, (now / 1000).saturating_add(ask.lease).saturating_add(3));
            for (at, fence) in locks.granted() {
                self.listeners().watch_untold(at, fence, ask.owner.clone(), channel.clone());
            }
        }
        Some(waited)
    }

    /// Has a client blocked that is told once replicas have confirmed it. `got`: what it has of each of these locks.
    pub(crate) fn hold_answer(
        &mut self,
        all: &[LockRef<'_>],
        several: bool,
        request: RequestId,
        arrival: Arrival<C>,
        got: &[Got],
        answer: Answer,
    ) {
        let (Answer::Granted { until } | Answer::Extended { until }) = answer else { return };
        debug_assert!(arrival.confirm.is_some(), "{request:?}");
        let (Some(confirm), now) = (arrival.confirm, arrival.since / 1000) else { return };
        let is_grant = matches!(answer, Answer::Granted { .. });
        let locks = RequestedLocks::new(all.iter().map(|at| self.locks.id(*at)), several, 0);
        self.connections.block(arrival.client_id, request);
        let mut waiter = Waiter::new(locks, arrival);
        waiter.phase = Phase::Unconfirmed(answer);
        let hold = waiter.hold(request);
        for (lock, got) in waiter.locks.all_mut().iter_mut().zip(got) {
            lock.got = Some(*got);
            if is_grant {
                // Its hold is taken back if it can't be told.
                self.locks.open(lock.id.to_ref()).1.add_untold(got.fence, hold);
            }
        }
        waiter.ends = Some(confirm.ends(until, now));
        self.waiters.insert(request, waiter);
        self.replication.add(Awaited::Answer(request), confirm.replicas);
    }
}
