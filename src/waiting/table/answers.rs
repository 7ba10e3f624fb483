//! From the decision what a waiter is told to the moment in which it is.

use super::WaitTable;
use super::outgoing::{Notice, Outgoing};
use super::queue::RequestId;
use super::waiter::{Answer, Phase, Told, WaitKind, Waiter};
use crate::lock::{Deadline, Got, Micros, Millis};

impl<C: Copy> WaitTable<C> {
    /// Takes a waiter out of its queues, to be told that.
    pub(crate) fn answer(&mut self, request: RequestId, answer: Answer) -> bool {
        let answered = self.leave(request, Phase::Answered(answer));
        if answered {
            self.outgoing.push_back(Notice::Waiter(request));
        }
        answered
    }

    /// Grants every lock of a request. Returns how long it waited, in ms.
    pub(crate) fn grant(
        &mut self,
        request: RequestId,
        got: &[Got],
        until: Deadline,
        now: Micros,
    ) -> Option<Millis> {
        let waiter = self.waiters.get_mut(&request).filter(|waiter| waiter.phase == Phase::Queued)?;
        for (lock, got) in waiter.locks.all_mut().iter_mut().zip(got) {
            lock.got = Some(*got);
        }
        let waited = now.saturating_sub(waiter.since) / 1000;
        let answer = Answer::Granted { until };
        match waiter.confirm {
            None => _ = self.answer(request, answer),
            Some(confirm) => {
                self.leave(request, Phase::Unconfirmed(answer));
                self.await_replicas(request, confirm, until, now / 1000);
            }
        }
        self.grant_to_place(request, now / 1000);
        Some(waited)
    }

    /// Whether somebody is to be told something.
    pub(crate) fn has_answered(&self) -> bool {
        !self.outgoing.is_empty()
    }

    /// Takes the next answer or message.
    pub(crate) fn next_answer(&mut self) -> Option<Outgoing<C>> {
        loop {
            let tell = match self.outgoing.pop_front()? {
                Notice::Message(message) => Some(Outgoing::Message(message)),
                Notice::Wanted(id) => self.wanted(id).map(Outgoing::Message),
                Notice::Waiter(request) => self.answer_due(request),
            };
            if tell.is_some() {
                return tell;
            }
        }
    }

    fn answer_due(&mut self, request: RequestId) -> Option<Outgoing<C>> {
        let waiter = self.waiters.get_mut(&request)?;
        // A waiter that an operator sent away in this step has been told already.
        waiter.unblocked = matches!(waiter.phase, Phase::Answered(_));
        Some(match waiter.way {
            WaitKind::Blocked(client) => Outgoing::Client(client),
            WaitKind::Notified(_) => Outgoing::Place(request),
        })
    }

    /// The answer for a waiter that the server lets us answer now: one that is still in its queue is sent away
    /// by an operator as if its time were up. `None`: it has been told already, and is not to be told twice. (Redis 7.0 with
    /// threads for input asks again where an operator's `CLIENT UNBLOCK` came in between.)
    pub(crate) fn tell(&mut self, request: RequestId) -> Option<Told> {
        self.leave(request, Phase::Answered(Answer::TimedOut));
        if !self.replication.is_empty() {
            self.end_unconfirmed(request);
        }
        let Self { waiters, entries, .. } = self;
        let waiter = waiters.get_mut(&request)?;
        let Phase::Answered(answer) = waiter.phase else { return None };
        waiter.phase = Phase::Told(answer);
        let channel = waiter.channel().cloned();
        let Waiter { locks, ask, client_id, confirm, .. } = waiter;
        let (ask, client_id, confirm) = (ask.clone(), *client_id, *confirm);
        let mut binds = Vec::new();
        for lock in locks.all().iter().filter(|_| ask.session) {
            let (Some(entry), Some(fence)) = (entries.get_mut(lock.id.to_ref()), lock.fence()) else {
                continue;
            };
            // If it turns out to be gone, what it kept alive before is not that of this answer.
            let goes_on = entry.grants.session(fence).is_none_or(|session| session.client != client_id);
            let was_to = entry.grants.change(fence, |record| {
                let binds = record.untold.get(request).is_some_and(|hold| hold.binds);
                record.untold.set_binds(request, binds && goes_on);
                binds
            });
            if was_to == Some(true) {
                binds.push((lock.id.clone(), fence));
            }
        }
        Some(Told { locks: locks.clone(), binds, ask, client_id, answer, confirm, channel })
    }

    /// The connection of a waiter that has been told that it has the lock, and whether that was since its answer was due.
    pub(crate) fn told_client(&self, request: RequestId) -> Option<(u64, bool)> {
        let waiter = self.waiters.get(&request)?;
        matches!(waiter.phase, Phase::Told(Answer::Granted { .. }))
            .then_some((waiter.client_id, waiter.unblocked))
    }
}
