//! From the decision what a waiter is told to the moment in which it is; with `SYNC`, once replicas have confirmed it.

use super::WaitTable;
use super::outgoing::{Notice, Outgoing};
use super::queue::RequestId;
use super::replication::{Awaited, Offset};
use super::waiter::{Answer, Confirmed, Phase, Told, Waiter};
use crate::lock::Deadline;

impl<C: Copy> WaitTable<C> {
    /// Takes an answer or a renewal that enough replicas have. `acks`: how far each replica is, the farthest first.
    pub(crate) fn next_confirmed(&mut self, acks: &[Offset]) -> Option<Confirmed> {
        Some(match self.replication.take_confirmed(acks)? {
            Awaited::Answer(request) => {
                let waiter = self.waiters.get(request);
                debug_assert!(waiter.is_some(), "{request:?} is to be told");
                Confirmed::Answer(request, waiter?.locks.clone())
            }
            Awaited::Renewal(id, fence) => {
                self.sessions().renewed(&id, fence);
                Confirmed::Renewal
            }
        })
    }

    /// Enough replicas have what a client is to be told, and it is told. `until`: the end of the lease that ends first; `None` if the
    /// client has lost what it was granted meanwhile.
    pub(crate) fn answer_confirmed(&mut self, request: RequestId, until: Option<Deadline>) {
        let Some(Phase::Unconfirmed(answer)) = self.waiters.phase(request) else { return };
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
            self.mark_undeliverable(request);
        }
        self.waiters.go_on(request, Phase::Answered(answer));
        self.outgoing.push_back(Notice::Waiter(request));
    }

    /// The time is up in which replicas were to confirm a client's grant or extension. The client is to be told so, and a grant is taken
    /// back. Whether the client waited for that.
    pub(super) fn end_unconfirmed(&mut self, request: RequestId) -> bool {
        let Some(Phase::Unconfirmed(answer)) = self.waiters.phase(request) else { return false };
        let answer = match answer {
            Answer::Extended { .. } => Answer::ExtensionUnconfirmed,
            _ => Answer::GrantUnconfirmed,
        };
        self.replication.remove(&Awaited::Answer(request));
        self.mark_undeliverable(request);
        self.waiters.go_on(request, Phase::Answered(answer));
        true
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
                Notice::Wanted(id) => self.listeners().next_wanted(id).map(Outgoing::Message),
                Notice::Waiter(request) => {
                    self.with_table_of(request, |table| table.waiters.answer_due(request))
                }
            };
            if tell.is_some() {
                return tell;
            }
        }
    }

    /// The answer for a waiter that the server lets us answer now: one that is still in its queue is sent away
    /// by an operator as if its time were up. `None`: it has been told already, and is not to be told twice. (Redis 7.0 with
    /// threads for input asks again where an operator's `CLIENT UNBLOCK` came in between.)
    pub(crate) fn tell(&mut self, request: RequestId) -> Option<Told> {
        self.leave(request, Phase::Answered(Answer::TimedOut));
        self.end_unconfirmed(request);
        let Self { waiters, locks: all, .. } = self;
        let waiter = waiters.get_mut(request)?;
        let Phase::Answered(answer) = waiter.phase else { return None };
        waiter.phase = Phase::Told(answer);
        let channel = waiter.channel().cloned();
        let Waiter { locks, ask, client_id, confirm, .. } = waiter;
        let (ask, client_id, confirm) = (ask.clone(), *client_id, *confirm);
        let mut binds = Vec::new();
        for lock in locks.all().iter().filter(|_| ask.session) {
            let (Some(entry), Some(fence)) = (all.entries.get_mut(lock.id.to_ref()), lock.fence()) else {
                continue;
            };
            if entry.grants.bind(fence, request, client_id) {
                binds.push((lock.id.clone(), fence));
            }
        }
        Some(Told { locks: locks.clone(), binds, ask, client_id, answer, confirm, channel })
    }
}
