//! From the decision what a waiter is told to the moment in which it is.

use super::message::{Due, Tell};
use super::queue::Ticket;
use super::untold::UntoldHold;
use super::waiter::{Answer, Phase, Told, Waiter, Way};
use super::{At, State};
use crate::lock::{Deadline, Fence, Got, Micros, Millis};

impl<C: Copy> State<C> {
    /// Takes a waiter out of its queues, to be told that.
    pub(crate) fn answer(&mut self, ticket: Ticket, answer: Answer) -> bool {
        let answered = self.leave(ticket, Phase::Answered(answer));
        if answered {
            self.answered.push_back(Due::Waiter(ticket));
        }
        answered
    }

    /// The same where it has been granted what it waited for, of each lock that. How long it waited, in ms.
    pub(crate) fn grant(
        &mut self,
        ticket: Ticket,
        got: &[Got],
        until: Deadline,
        now: Micros,
    ) -> Option<Millis> {
        let waiter = self.waiters.get_mut(&ticket).filter(|waiter| waiter.phase == Phase::Queued)?;
        for (stand, got) in waiter.stands.all_mut().iter_mut().zip(got) {
            stand.got = Some(*got);
        }
        let waited = now.saturating_sub(waiter.since) / 1000;
        let answer = Answer::Granted { until };
        match waiter.confirm {
            None => _ = self.answer(ticket, answer),
            Some(confirm) => {
                self.leave(ticket, Phase::Unconfirmed(answer));
                self.await_replicas(ticket, confirm, until, now / 1000);
            }
        }
        self.grant_to_place(ticket, now / 1000);
        Some(waited)
    }

    /// Whether somebody is to be told something.
    pub(crate) fn has_answered(&self) -> bool {
        !self.answered.is_empty()
    }

    /// Who is to be told next.
    pub(crate) fn next_answer(&mut self) -> Option<Tell<C>> {
        loop {
            let tell = match self.answered.pop_front()? {
                Due::Message(message) => Some(Tell::Message(message)),
                Due::Wanted(place) => self.wanted(place).map(Tell::Message),
                Due::Waiter(ticket) => self.answer_due(ticket),
            };
            if tell.is_some() {
                return tell;
            }
        }
    }

    fn answer_due(&mut self, ticket: Ticket) -> Option<Tell<C>> {
        let waiter = self.waiters.get_mut(&ticket)?;
        // One whom an operator sent away in this step has been told already.
        waiter.unblocked = matches!(waiter.phase, Phase::Answered(_));
        Some(match waiter.way {
            Way::Blocked(client) => Tell::Client(client),
            Way::Notified(_) => Tell::Place(ticket),
        })
    }

    /// What a waiter whom the server lets us answer now is told, and by what name: one that still stands in line is sent away
    /// by an operator as if its time were up. `None`: it has been told already, and is not to be told twice. (Redis 7.0 with
    /// threads for input asks again where an operator's `CLIENT UNBLOCK` came in between.)
    pub(crate) fn tell(&mut self, ticket: Ticket) -> Option<Told> {
        self.leave(ticket, Phase::Answered(Answer::TimedOut));
        if self.awaits_replicas() {
            self.end_unconfirmed(ticket);
        }
        let Self { waiters, lines, .. } = self;
        let waiter = waiters.get_mut(&ticket)?;
        let Phase::Answered(answer) = waiter.phase else { return None };
        waiter.phase = Phase::Told(answer);
        let channel = waiter.channel().cloned();
        let Waiter { stands, ask, client_id, confirm, .. } = waiter;
        let (ask, client_id, confirm) = (ask.clone(), *client_id, *confirm);
        let mut binds = Vec::new();
        for stand in stands.all().iter().filter(|_| ask.session) {
            let (Some(line), Some(fence)) = (lines.get_mut(stand.place.at()), stand.fence()) else {
                continue;
            };
            // If it turns out to be gone, what it kept alive before is not that of this answer.
            let goes_on = line.grants.session(fence).is_none_or(|session| session.client != client_id);
            let was_to = line.grants.change(fence, |record| {
                let binds = record.untold.get(ticket).is_some_and(|hold| hold.binds);
                record.untold.set_binds(ticket, binds && goes_on);
                binds
            });
            if was_to == Some(true) {
                binds.push((stand.place.clone(), fence));
            }
        }
        Some(Told { stands: stands.clone(), binds, ask, client_id, answer, confirm, channel })
    }

    /// The blocked clients that have been given that grant, and may turn out to be gone, first come first.
    pub(super) fn given(&self, at: At<'_>, fence: Fence) -> impl Iterator<Item = &UntoldHold> {
        self.untold(at, fence).filter(|hold| !hold.to_claim)
    }

    /// The places that have been given that grant, and have not claimed it, first come first.
    pub(super) fn unclaimed(&self, at: At<'_>, fence: Fence) -> impl Iterator<Item = Ticket> {
        self.untold(at, fence).filter(|hold| hold.to_claim).map(|hold| hold.ticket)
    }

    fn untold(&self, at: At<'_>, fence: Fence) -> impl Iterator<Item = &UntoldHold> {
        let record = self.line(at).and_then(|line| line.grants.get(fence));
        record.into_iter().flat_map(|record| record.untold.iter())
    }

    /// The connection of a waiter that has been told that it has the lock, and whether that was since its answer was due.
    pub(crate) fn told_client(&self, ticket: Ticket) -> Option<(u64, bool)> {
        let waiter = self.waiters.get(&ticket)?;
        matches!(waiter.phase, Phase::Told(Answer::Granted { .. }))
            .then_some((waiter.client_id, waiter.unblocked))
    }
}
