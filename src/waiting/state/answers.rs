//! From the decision what a waiter is told to the moment in which it is.

use std::collections::BTreeSet;

use super::message::{Due, Tell};
use super::queue::Ticket;
use super::waiter::{Answer, Phase, Told, Waiter, Way};
use super::{At, State};
use crate::lock::{Fence, Micros, Millis};

impl<C: Copy> State<C> {
    /// Takes a waiter out of its queue, to be told that. How long it waited, in ms, where that is a grant.
    pub(crate) fn answer(&mut self, ticket: Ticket, answer: Answer, now: Micros) -> Option<Millis> {
        if !self.leave(ticket, Phase::Answered(answer)) {
            return None;
        }
        self.answered.push_back(Due::Waiter(ticket));
        let Answer::Granted { fence, .. } = answer else { return None };
        self.grant_to_place(ticket, fence, now / 1000);
        Some(now.saturating_sub(self.waiters.get(&ticket)?.since) / 1000)
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
                Due::Wanted(place, fence) => self.wanted(place.at(), fence).map(Tell::Message),
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
        let waiter = self.waiters.get_mut(&ticket)?;
        let Phase::Answered(answer) = waiter.phase else { return None };
        waiter.phase = Phase::Told(answer);
        let channel = waiter.channel().cloned();
        let Waiter { place, ask, client_id, .. } = waiter;
        Some(Told { place: place.clone(), ask: ask.clone(), client_id: *client_id, answer, channel })
    }

    /// The blocked clients that have been given that grant, and may turn out to be gone, first come first.
    pub(super) fn given(&self, at: At<'_>, fence: Fence) -> impl Iterator<Item = Ticket> {
        self.line(at).into_iter().flat_map(move |line| of_grant(&line.given, fence))
    }

    /// The places that have been given that grant, and have not claimed it, first come first.
    pub(super) fn unclaimed(&self, at: At<'_>, fence: Fence) -> impl Iterator<Item = Ticket> {
        self.line(at).into_iter().flat_map(move |line| of_grant(&line.unclaimed, fence))
    }

    /// The connection of a waiter that has been told that it has the lock, and whether that was since its answer was due.
    pub(crate) fn told_client(&self, ticket: Ticket) -> Option<(u64, bool)> {
        let waiter = self.waiters.get(&ticket)?;
        matches!(waiter.phase, Phase::Told(Answer::Granted { .. }))
            .then_some((waiter.client_id, waiter.unblocked))
    }
}

fn of_grant(given: &BTreeSet<(Fence, Ticket)>, fence: Fence) -> impl Iterator<Item = Ticket> {
    let given = given.range((fence, Ticket::MIN)..=(fence, Ticket::MAX));
    given.map(|(_, ticket)| *ticket)
}
