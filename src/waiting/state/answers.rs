//! From the decision what a waiter is told to the moment in which it is.

use super::State;
use crate::info;
use crate::lock::{Fence, Millis, Ticket};
use crate::server::{self, Blocked};
use crate::waiting::waiter::{Answer, Phase, Told, Waiter};

impl State {
    /// Takes a waiter out of its line, to be told that.
    pub(in crate::waiting) fn answer(&mut self, ticket: Ticket, answer: Answer) {
        if !self.leave(ticket, Phase::Answered(answer)) {
            return;
        }
        self.answered.push(ticket);
        if let (Answer::Granted { fence, .. }, Some(waiter)) = (answer, self.waiters.get(&ticket)) {
            self.given.insert((fence, ticket));
            info::waited(server::now().saturating_sub(waiter.since) / 1000);
        }
    }

    /// Answers those whose time is up.
    pub(in crate::waiting) fn time_out(&mut self, now: Millis) {
        while let Some(&(_, ticket)) = self.timeouts.first().filter(|(at, _)| *at <= now) {
            self.answer(ticket, Answer::TimedOut);
            info::TIMEOUTS.count();
        }
    }

    /// Whether somebody is to be answered.
    pub(in crate::waiting) fn has_answered(&self) -> bool {
        !self.answered.is_empty()
    }

    /// Whose answers are due.
    pub(in crate::waiting) fn take_answered(&mut self) -> Vec<Blocked> {
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
    pub(in crate::waiting) fn tell(&mut self, ticket: Ticket) -> Option<Told> {
        self.leave(ticket, Phase::Answered(Answer::TimedOut));
        let waiter = self.waiters.get_mut(&ticket)?;
        let Phase::Answered(answer) = waiter.phase else { return None };
        waiter.phase = Phase::Told(answer);
        let Waiter { place, ask, client_id, .. } = waiter;
        Some(Told { place: place.clone(), ask: ask.clone(), client_id: *client_id, answer })
    }

    /// Who has been given that grant, and may turn out to be gone, first come first.
    pub(super) fn given(&self, fence: Fence) -> Vec<Ticket> {
        let from = self.given.range((fence, Ticket(0))..);
        from.take_while(|(other, _)| *other == fence).map(|(_, ticket)| *ticket).collect()
    }

    /// The connection of a waiter that has been told that it has the lock, and whether the tick had it told.
    pub(in crate::waiting) fn told_client(&self, ticket: Ticket) -> Option<(u64, bool)> {
        let waiter = self.waiters.get(&ticket)?;
        matches!(waiter.phase, Phase::Told(Answer::Granted { .. }))
            .then_some((waiter.client_id, waiter.unblocked))
    }
}
