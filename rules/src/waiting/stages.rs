//! What happens to a waiter, from its arrival in its queues until the server is done with it.
//!
//! `add` puts it into the table, and `set_stage` moves it to its next stage (`Stage`). It ends in one of these ways:
//!
//! - `serve` grants it its locks, `tell` makes its answer, and then it knows of them (`note_received`); the owner of a place claims them
//!   (`claim`);
//! - its time is up (`time_out`), or it can never have its locks: it leaves its queues (`leave_queues`) with another answer;
//! - replicas have not confirmed its answer in time (`end_unconfirmed` in `sync`);
//! - it can't be told any more (`depart`), or its place is given up (`give_up`): it leaves its queues, or what it was granted is taken back
//!   (`revoke`);
//! - one of its grants ends before it was told (`untell`), and the others are taken back.
//!
//! When the server is done with a blocked client (`freed`; after a grant also `turn_sent` or `closed`), `forget` removes the waiter.

use std::num::NonZero;

use super::connections::Dependent;
use super::lock_id::LockId;
use super::lock_state::{LockState, Record};
use super::notices::Notice;
use super::queue::RequestId;
use super::replication::Awaited;
use super::table::{After, Table};
use super::waiter::{Answer, Stage, Waiter};
use crate::lock::{Deadline, Fence, Millis, Now};

impl<C: Copy> Table<C> {
    pub(super) fn next_request(&mut self) -> RequestId {
        self.last_request = self.last_request.saturating_add(1);
        RequestId(self.last_request)
    }

    pub(super) fn add(&mut self, request: RequestId, waiter: Waiter<C>) {
        if let Some(replicas) = waiter.awaits() {
            self.replication.add(Awaited::Answer(request), replicas);
        }
        waiter.time_up.map(|time_up| self.timeouts.insert((time_up.get(), request)));
        if waiter.channel.is_some() {
            self.connections.add(waiter.connection, Dependent::Place(request), waiter.locks.weight());
        }
        if waiter.stage == Stage::Queued {
            self.queued.add(request, &waiter);
            if waiter.channel.is_none() && self.connections.weights.contains_key(&waiter.connection) {
                self.connections.blocked.insert(waiter.connection, request);
            }
        }
        self.waiters.insert(request, waiter);
    }

    pub(super) fn remove(&mut self, request: RequestId) -> Option<Waiter<C>> {
        let waiter = self.waiters.remove(&request)?;
        if waiter.stage == Stage::Queued {
            self.queued.remove(request, &waiter);
        }
        waiter.time_up.map(|time_up| self.timeouts.remove(&(time_up.get(), request)));
        if waiter.channel.is_some() {
            self.connections.remove(waiter.connection, Dependent::Place(request), waiter.locks.weight());
        }
        Some(waiter)
    }

    /// Sets when the time to wait, to claim or to confirm is up.
    pub(super) fn end_by(&mut self, request: RequestId, time_up: Option<Millis>) {
        let Some(waiter) = self.waiters.get_mut(&request) else { return };
        waiter.time_up.map(|time_up| self.timeouts.remove(&(time_up.get(), request)));
        waiter.time_up = time_up.and_then(NonZero::new);
        waiter.time_up.map(|time_up| self.timeouts.insert((time_up.get(), request)));
    }

    /// The server has blocked the client of this request.
    pub fn blocked(&mut self, request: RequestId, client: C) {
        if let Some(waiter) = self.waiters.get_mut(&request) {
            waiter.client = Some(client);
        }
    }

    /// The server refuses to block the client of this request.
    pub fn refuse(&mut self, request: RequestId) {
        self.depart(request);
        self.remove(request);
    }

    pub(super) fn stage(&self, request: RequestId) -> Option<Stage> {
        self.waiters.get(&request).map(|waiter| waiter.stage)
    }

    pub(super) fn is_untold(&self, request: RequestId) -> bool {
        matches!(self.stage(request), Some(Stage::Answered(_) | Stage::Unconfirmed(_)))
    }

    /// Whether this is a place whose connection has closed.
    pub(super) fn is_closed_place(&self, request: RequestId) -> bool {
        let waiter = self.waiters.get(&request).filter(|waiter| waiter.channel.is_some());
        waiter.is_some_and(|waiter| self.connections.is_closed(waiter.connection))
    }

    /// Moves a waiter to its next stage. Returns the stage before.
    pub(super) fn set_stage(&mut self, request: RequestId, next: Stage) -> Option<Stage> {
        self.end_by(request, None);
        let waiter = self.waiters.get_mut(&request)?;
        if let Stage::Answered(_) = next {
            self.outgoing.push(Notice::Waiter(request));
        }
        let awaits = waiter.awaits();
        let before = std::mem::replace(&mut waiter.stage, next);
        if before == Stage::Queued {
            let is_granted = matches!(next, Stage::Unconfirmed(_) | Stage::Answered(Answer::Granted { .. }));
            let counts = !is_granted && !self.queued.is_earlier(request);
            self.observers.ungranted += u64::from(counts);
            self.queued.remove(request, waiter);
        }
        match (awaits, waiter.awaits()) {
            (None, Some(replicas)) => self.replication.add(Awaited::Answer(request), replicas),
            (Some(_), None) => self.replication.remove(&Awaited::Answer(request)),
            _ => (),
        }
        Some(before)
    }

    /// Takes a waiter out of its queues without a grant.
    pub(super) fn leave_queues(&mut self, request: RequestId, next: Stage) -> bool {
        let Some(waiter) = self.waiters.get(&request).filter(|waiter| waiter.stage == Stage::Queued) else {
            return false;
        };
        let (locks, owner) = (waiter.locks.clone(), waiter.ask.owner.clone());
        for at in locks.names() {
            self.change(at, None, |_, lock| {
                lock.leave(request, &owner);
                // There may be room for the waiters behind it.
                lock.wake = if lock.queue.is_empty() { lock.wake } else { Some(0) };
            });
        }
        self.tries.remove(&request);
        self.set_stage(request, next);
        true
    }

    /// What a waiter has been granted, and has not been told of, or has not claimed.
    pub(super) fn granted(&self, request: RequestId) -> Vec<(LockId, Fence)> {
        let locks = self.waiters.get(&request).into_iter().flat_map(|waiter| waiter.locks.all());
        locks.filter_map(|lock| Some((lock.id.clone(), lock.fence()?))).collect()
    }

    /// A waiter can't be told anything any more. If it has been granted its locks, timers take the holds back.
    pub fn depart(&mut self, request: RequestId) {
        if self.leave_queues(request, Stage::Departed) {
            return;
        }
        match self.set_stage(request, Stage::Departed) {
            Some(Stage::Answered(Answer::Granted { .. }) | Stage::Unconfirmed(Answer::Granted { .. })) => {
                self.revoke(request);
            }
            Some(Stage::Told(Answer::Granted { .. })) => {
                self.drop_sessions(request);
                self.revoke(request);
            }
            _ => (),
        }
    }

    /// Has the holds of a waiter taken back.
    pub(super) fn revoke(&mut self, request: RequestId) {
        for (id, fence) in self.granted(request) {
            self.change(id.to_ref(), Some(0), |_, lock| lock.change(fence, |record| record.revoke(request)));
        }
    }

    /// One of the grants of a waiter has ended before the waiter was told, so the waiter gets none.
    pub(super) fn untell(&mut self, request: RequestId) {
        self.revoke(request);
        let over = Stage::Answered(Answer::Granted { until: Deadline::At(0) });
        match self.waiters.get_mut(&request) {
            Some(waiter) if matches!(waiter.stage, Stage::Answered(Answer::Granted { .. })) => {
                waiter.stage = over
            }
            Some(Waiter { stage: Stage::Unconfirmed(_), .. }) => _ = self.set_stage(request, over),
            _ => (),
        }
        // A place that has not heard of its grant does not hear of the loss either.
        for (id, fence) in self.granted(request) {
            self.change(id.to_ref(), None, |_, lock| {
                lock.change(fence, |record| {
                    let unknown = record.claims() == 0;
                    record.listener.take_if(|listener| unknown && !listener.knows);
                });
            });
        }
    }

    /// Gives up a place, and has its holds taken back. If other holds keep the grant, the owner counts as knowing of the grant, and gets
    /// messages about it.
    pub(super) fn give_up(&mut self, request: RequestId) {
        self.depart(request);
        for (id, fence) in self.granted(request) {
            let knows = |record: &mut Record| {
                if record.claims() == 0 {
                    record.note_known()
                }
            };
            self.change(id.to_ref(), None, |_, lock| lock.change(fence, knows));
        }
        self.remove(request);
    }

    /// Ends what should have ended by now: a wait, a place that has not been claimed, or an answer that has not been confirmed. Returns
    /// whether it was a wait.
    pub(super) fn time_out(&mut self, request: RequestId, now: Millis) -> bool {
        let time_up = self.waiters.get(&request).and_then(|waiter| waiter.time_up);
        if time_up.is_none_or(|time_up| time_up.get() > now) {
            return false;
        }
        match self.stage(request) {
            Some(Stage::Queued) => return self.leave_queues(request, Stage::Answered(Answer::TimedOut)),
            Some(Stage::Unconfirmed(answer)) => self.end_unconfirmed(request, answer),
            _ => self.give_up(request),
        }
        false
    }

    /// Whether the next step at the lock ends this grant, which has `holds` holds, because clients have gone away.
    pub(super) fn is_abandoned(&self, id: &LockId, fence: Fence, holds: u32) -> bool {
        let Some(record) = self.get(id.to_ref()).and_then(|lock| lock.record(fence)) else { return false };
        let has_closed = record.session.is_some_and(|session| self.has_closed(session));
        record.to_take_back >= holds || has_closed && !self.has_successor(record)
    }

    /// The lease of a grant is shorter now. Clients that are still to be told of the grant are told of this lease.
    pub(super) fn shorten_answers(&mut self, record: &Record, until: Deadline, now: Now) {
        for hold in &record.pending {
            let Some(waiter) = self.waiters.get_mut(&hold.request) else { continue };
            if let Stage::Answered(Answer::Granted { until: known })
            | Stage::Unconfirmed(Answer::Granted { until: known }) = &mut waiter.stage
                && until < *known
            {
                *known = until;
                // A `start` message tells this length. A session still sets the length that its client asked for.
                if waiter.channel.is_some() {
                    waiter.ask.lease = waiter.ask.lease.min(until.left(now.start));
                }
            }
        }
    }

    /// The connection of a waiter that was told of its grant, and whether the module unblocked it.
    pub fn told_connection(&self, request: RequestId) -> Option<(u64, bool)> {
        let waiter = self.waiters.get(&request)?;
        matches!(waiter.stage, Stage::Told(Answer::Granted { .. }))
            .then_some((waiter.connection, waiter.unblocked))
    }

    /// The server is done with a blocked client. Whether a reply about a grant was sent shows only at the end of the turn; returns whether
    /// there is such a reply.
    pub fn freed(&mut self, request: RequestId) -> bool {
        let told = self.told_connection(request);
        match told {
            Some((connection, _)) => self.sent.push((connection, request)),
            None => self.forget(request),
        }
        told.is_some()
    }

    /// The replies of this turn have been sent.
    pub fn turn_sent(&mut self) {
        while let Some((_, request)) = self.sent.pop() {
            self.forget(request);
        }
    }

    /// Drops a waiter with which the server is done. A waiter that was never told has gone away.
    pub(super) fn forget(&mut self, request: RequestId) {
        match self.stage(request) {
            Some(Stage::Told(Answer::Granted { .. })) => self.note_received(request),
            Some(Stage::Told(_)) => (),
            _ => self.depart(request),
        }
        self.remove(request);
    }

    /// A waiter knows what it was granted. If it shares a hold with other clients of its owner, the owner knows of the whole grant.
    pub(super) fn note_received(&mut self, request: RequestId) {
        let Some(waiter) = self.waiters.get(&request) else { return };
        let (locks, is_synced) = (waiter.locks.clone(), waiter.confirm.is_some());
        for (id, fence) in locks.all().iter().filter_map(|lock| Some((&lock.id, lock.fence()?))) {
            self.change(id.to_ref(), None, |table, lock| {
                let shares = |record: &mut Record| record.remove(request).is_some_and(|hold| !hold.revocable);
                if lock.change(fence, shares) == Some(true) {
                    table.claim(lock, fence);
                    lock.change(fence, Record::share);
                }
                if is_synced {
                    lock.change(fence, Record::note_known);
                }
            });
        }
        self.end_step();
    }

    /// The owner has been told of its grant, so its places have claimed it.
    pub(super) fn claim(&mut self, lock: &mut LockState, fence: Fence) {
        let claimed: Option<Vec<_>> = lock.change(fence, |record| {
            record.note_known();
            let claimed =
                record.pending.iter().filter(|hold| hold.to_claim).map(|hold| hold.request).collect();
            record.pending.retain(|hold| !hold.to_claim);
            claimed
        });
        self.after.extend(claimed.into_iter().flatten().map(|request| (request, After::Claimed)));
    }
}
