//! Who is told once replicas have confirmed it.

use std::num::NonZeroU32;

use super::State;
use super::awaited::{Confirm, Confirmations, Offset, Pending, What, confirmed_by};
use super::grants::Synced;
use super::message::Due;
use super::place::{At, Place};
use super::queue::Ticket;
use super::untold::UntoldHold;
use super::waiter::{Answer, Arrival, Confirmed, Phase, Stands, Waiter};
use crate::lock::{Deadline, Got, Millis};

impl<C: Copy> State<C> {
    /// Whether replicas are to confirm something.
    pub(crate) fn awaits_replicas(&self) -> bool {
        !self.confirmations.pending.is_empty()
    }

    /// Whether replicas are to be asked now.
    pub(crate) fn is_to_ask(&self) -> bool {
        !self.confirmations.unasked.is_empty() && !self.confirmations.question
    }

    /// A replica has answered, or none does.
    pub(crate) fn replicas_heard(&mut self) {
        self.confirmations.question = false;
    }

    /// How many wait for replicas.
    pub(crate) fn syncing(&self) -> usize {
        self.confirmations.pending.len()
    }

    /// Replicas are asked: what has changed so far stands before that offset.
    pub(crate) fn replicas_asked(&mut self, offset: Offset) {
        let Confirmations { pending, unasked, asked, question, .. } = &mut self.confirmations;
        *question = true;
        for ticket in std::mem::take(unasked) {
            let Some(pending) = pending.get_mut(&ticket) else { continue };
            pending.offset = Some(offset);
            asked.insert((pending.replicas, offset, ticket));
        }
    }

    /// One of those that enough replicas have; it is over with that. `acks`: how far each is, the one that is farthest first.
    pub(crate) fn next_confirmed(&mut self, acks: &[Offset]) -> Option<Confirmed> {
        let ticket = self.confirmations.confirmed(acks)?;
        let pending = self.end_pending(ticket)?;
        Some(match pending.what {
            What::Answer => {
                let stands = self.waiters.get(&ticket).map(|waiter| waiter.stands.clone());
                Confirmed::Answer(ticket, stands?)
            }
            What::Renewal { place, fence, .. } => {
                self.change_synced(place.at(), fence, |synced| synced.pending = None);
                Confirmed::Renewal
            }
        })
    }

    /// A client that waited for replicas is told what it was to be told. `until`: the end of the lease that ends first; none: it does
    /// not hold any more what it was granted.
    pub(crate) fn answer_confirmed(&mut self, ticket: Ticket, until: Option<Deadline>) {
        let phase = self.waiters.get(&ticket).map(|waiter| waiter.phase);
        let Some(Phase::Unconfirmed(answer)) = phase else { return };
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
            self.take_back(ticket);
        }
        self.set_answer(ticket, answer);
        self.answered.push_back(Due::Waiter(ticket));
    }

    fn set_answer(&mut self, ticket: Ticket, answer: Answer) {
        if let Some(waiter) = self.waiters.get_mut(&ticket) {
            waiter.phase = Phase::Answered(answer);
        }
    }

    /// Has a client blocked that is told once replicas have confirmed it. `got`: what it has of each of these locks.
    pub(crate) fn hold_answer(
        &mut self,
        ticket: Ticket,
        arrival: Arrival<C>,
        several: bool,
        got: &[(At<'_>, Got)],
        answer: Answer,
    ) {
        let (Answer::Granted { until } | Answer::Extended { until }) = answer else { return };
        let (Some(confirm), now) = (arrival.confirm, arrival.since / 1000) else { return };
        let is_grant = matches!(answer, Answer::Granted { .. });
        let places: Vec<Place> =
            got.iter().map(|(at, _)| self.place(*at).unwrap_or_else(|| at.to_place())).collect();
        let stands = match places.first() {
            Some(place) if !several => Stands::one(place.clone()),
            _ => Stands::several(places.into_iter(), 0),
        };
        self.connections.block(arrival.client_id, ticket);
        let mut waiter = Waiter::new(stands, arrival);
        waiter.phase = Phase::Unconfirmed(answer);
        let (locks, binds) = (got.len() as u32, waiter.ask.session);
        let hold = UntoldHold { ticket, locks, own: true, binds, to_claim: false };
        for (stand, (at, got)) in waiter.stands.all_mut().iter_mut().zip(got) {
            stand.got = Some(*got);
            if is_grant {
                // Its hold is taken back if it can't be told.
                self.open_line(*at).1.add_untold(got.fence, hold);
            }
        }
        self.waiters.insert(ticket, waiter);
        self.await_replicas(ticket, confirm, until, now);
    }

    /// A client is told, once replicas have confirmed it, or its time is up.
    pub(super) fn await_replicas(&mut self, ticket: Ticket, confirm: Confirm, until: Deadline, now: Millis) {
        let ends = confirmed_by(confirm.within, until, now);
        self.add_pending(ticket, confirm.replicas, ends, What::Answer);
    }

    pub(super) fn add_pending(&mut self, ticket: Ticket, replicas: NonZeroU32, ends: Millis, what: What) {
        self.timers.set_timeout(ticket, Some(ends));
        self.confirmations.add(ticket, Pending { replicas, offset: None, what, ends });
    }

    pub(super) fn end_pending(&mut self, ticket: Ticket) -> Option<Pending> {
        let pending = self.confirmations.remove(ticket)?;
        self.timers.cancel_timeout(ticket, Some(pending.ends));
        Some(pending)
    }

    /// Nothing is to be confirmed any more for a client, since it has gone or been told.
    pub(super) fn stop_awaiting(&mut self, ticket: Ticket) {
        if self.awaits_replicas() {
            self.end_pending(ticket);
        }
    }

    /// The time is up in which replicas were to confirm something: a session's lease is to be set back; or a client has nothing, and
    /// is to be told so, which is true then.
    pub(super) fn end_unconfirmed(&mut self, ticket: Ticket) -> bool {
        match self.end_pending(ticket).map(|pending| pending.what) {
            None => false,
            Some(What::Renewal { place, fence, moved }) => {
                let failed = |synced: &mut Synced| (synced.pending, synced.failed) = (None, Some(moved));
                if self.change_synced(place.at(), fence, failed).is_some() {
                    self.look_through(place.at(), 0);
                }
                false
            }
            Some(What::Answer) => {
                let phase = self.waiters.get(&ticket).map(|waiter| waiter.phase);
                let Some(Phase::Unconfirmed(answer)) = phase else { return false };
                let answer = match answer {
                    Answer::Extended { .. } => Answer::ExtensionUnconfirmed,
                    _ => Answer::GrantUnconfirmed,
                };
                self.take_back(ticket);
                self.set_answer(ticket, answer);
                true
            }
        }
    }
}
