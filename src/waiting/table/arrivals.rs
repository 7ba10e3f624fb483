//! Waiters that come, and waiters that are granted what they wait for.

use super::lock_id::LockId;
use super::outgoing::Notice;
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
        let (answer, confirm, is_place) =
            (Answer::Granted { until }, waiter.confirm, waiter.channel().is_some());
        match confirm {
            None => self.answer(request, answer),
            Some(confirm) => {
                self.leave(request, Phase::Unconfirmed(answer));
                self.replication.add(Awaited::Answer(request), confirm.replicas);
                self.waiters.end_by(request, confirm.ends(until, now / 1000));
            }
        }
        if is_place {
            self.grant_to_place(request, until, now / 1000);
        }
        Some(waited)
    }

    /// A place has been granted its locks: it has so long to claim them, and hears what becomes of the grants.
    fn grant_to_place(&mut self, request: RequestId, until: Deadline, now: Millis) {
        let Some(waiter) = self.waiters.get_mut(request) else { return };
        if let Deadline::At(last) = until {
            // Settings may allow less than it asked for, and it may be told.
            waiter.ask.lease = waiter.ask.lease.min(last.saturating_sub(now));
        }
        let WaitKind::Notified(channel) = &waiter.way else { return };
        let (locks, owner, channel) = (waiter.locks.clone(), waiter.ask.owner.clone(), channel.clone());
        // After its lease has lapsed, where that is as short: so the lapse is told. Leases may be rounded up by a millisecond.
        let ends = now.saturating_add(waiter.ask.lease).saturating_add(3);
        self.waiters.end_by(request, ends);
        for lock in locks.all() {
            if let Some(fence) = lock.fence() {
                self.listeners().watch_unclaimed(lock.id.to_ref(), fence, owner.clone(), channel.clone());
            }
        }
    }

    /// Keeps a client blocked until replicas have confirmed what it is to be told. `got`: its grant of each lock.
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
                // Its hold is taken back if it can't be told.
                self.locks.open(*at).1.add_pending(got.fence, hold);
            }
        }
        waiter.set_ends(Some(confirm.ends(until, now)));
        self.waiters.insert(request, waiter);
        self.replication.add(Awaited::Answer(request), confirm.replicas);
    }
}
