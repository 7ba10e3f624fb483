//! From the decision what a waiter is told to the moment in which it is.

use super::queue::Ticket;
use super::waiter::{Answer, Phase, Told, Waiter};
use super::{At, State};
use crate::lock::{Fence, Micros, Millis};

impl<C: Copy> State<C> {
    /// Takes a waiter out of its queue, to be told that. How long it waited, in ms, where that is a grant.
    pub(crate) fn answer(&mut self, ticket: Ticket, answer: Answer, now: Micros) -> Option<Millis> {
        if !self.leave(ticket, Phase::Answered(answer)) {
            return None;
        }
        self.answered.push(ticket);
        let waiter = self.waiters.get(&ticket)?;
        matches!(answer, Answer::Granted { .. }).then(|| now.saturating_sub(waiter.since) / 1000)
    }

    /// Answers those whose time is up; how many.
    pub(crate) fn time_out(&mut self, now: Micros) -> u64 {
        let mut late = 0;
        while let Some(&(_, ticket)) = self.timeouts.first().filter(|(at, _)| *at <= now / 1000) {
            self.answer(ticket, Answer::TimedOut, now);
            late += 1;
        }
        late
    }

    /// Whether somebody is to be answered.
    pub(crate) fn has_answered(&self) -> bool {
        !self.answered.is_empty()
    }

    /// Whose answers are due.
    pub(crate) fn take_answered(&mut self) -> Vec<C> {
        let tickets = std::mem::take(&mut self.answered);
        let waiters = tickets.iter().filter_map(|ticket| {
            let waiter = self.waiters.get_mut(ticket)?;
            // One whom an operator sent away in this step has been told already.
            waiter.unblocked = matches!(waiter.phase, Phase::Answered(_));
            Some(waiter.client)
        });
        waiters.collect()
    }

    /// What a waiter whom the server lets us answer now is told, and by what name: one that still stands in line is sent away
    /// by an operator as if its time were up. `None`: it has been told already, and is not to be told twice. (Redis 7.0 with
    /// threads for input asks again where an operator's `CLIENT UNBLOCK` came in between.)
    pub(crate) fn tell(&mut self, ticket: Ticket) -> Option<Told> {
        self.leave(ticket, Phase::Answered(Answer::TimedOut));
        let waiter = self.waiters.get_mut(&ticket)?;
        let Phase::Answered(answer) = waiter.phase else { return None };
        waiter.phase = Phase::Told(answer);
        let Waiter { place, ask, client_id, .. } = waiter;
        Some(Told { place: place.clone(), ask: ask.clone(), client_id: *client_id, answer })
    }

    /// Who has been given that grant, and may turn out to be gone, first come first.
    pub(super) fn given(&self, at: At<'_>, fence: Fence) -> impl Iterator<Item = Ticket> {
        let given = self.line(at).map(|line| line.given.range((fence, Ticket::MIN)..));
        let given = given.into_iter().flatten().take_while(move |(other, _)| *other == fence);
        given.map(|(_, ticket)| *ticket)
    }

    /// The connection of a waiter that has been told that it has the lock, and whether that was since its answer was due.
    pub(crate) fn told_client(&self, ticket: Ticket) -> Option<(u64, bool)> {
        let waiter = self.waiters.get(&ticket)?;
        matches!(waiter.phase, Phase::Told(Answer::Granted { .. }))
            .then_some((waiter.client_id, waiter.unblocked))
    }
}
