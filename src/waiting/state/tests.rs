//! What the tests of `waiting` see of the state, and how they tell two states apart.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};

use super::message::Due;
use super::queue::{Queue, Ticket};
use super::survey::Survey;
use super::timers::Lane;
use super::waiter::{Phase, Way};
use super::{At, Offset, State};
use crate::lock::{Fence, Millis, Owner, Room};

/// Hash maps have no order: by key, then.
impl<C: Hash> Hash for State<C> {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.lines.iter().collect::<BTreeMap<_, _>>().hash(hasher);
        self.waiters.hash(hasher);
        self.owners.hash(hasher);
        self.connections.hash(hasher);
        self.timers.hash(hasher);
        self.sweeps.hash(hasher);
        self.happened.hash(hasher);
        self.answered.hash(hasher);
        self.confirmations.hash(hasher);
    }
}

impl<C: Copy> State<C> {
    /// Whether the next look at the lock sets something right: a waiter or a session is gone, or a lease to be given back.
    pub(crate) fn is_unsettled(&self, at: At<'_>) -> bool {
        self.line(at).is_some_and(|line| {
            let counts = line.grants.counts();
            counts.undeliverable > 0 || counts.expired > 0 || self.has_session_over(at)
        })
    }

    /// Who stands in the queue, first come first, under which name, and for how many there is to be room.
    pub(crate) fn tickets_of(&self, at: At<'_>) -> Vec<(Ticket, Owner<'static>, Room)> {
        let tickets = self.line(at).into_iter().flat_map(|line| line.queue.iter());
        let asks = tickets.map(|ticket| (ticket, &self.waiters[&ticket].ask));
        asks.map(|(ticket, ask)| (ticket, ask.owner.clone(), ask.room)).collect()
    }

    /// Whether the index by owner has all who stand in queues, and nobody else.
    pub(crate) fn is_index_right(&self) -> bool {
        for (place, line) in self.lines.iter() {
            line.check();
            self.timers.check(&line.timers, place);
        }
        assert_eq!(self.timers.len(), self.lines.values().map(|line| line.timers.len()).sum::<usize>());
        let queued = self.waiters.iter().filter(|(_, waiter)| waiter.phase == Phase::Queued);
        let owners: Vec<_> = queued.clone().map(|(_, waiter)| &waiter.ask.owner).collect();
        let mut places = queued.clone().filter(|(_, waiter)| waiter.channel().is_some());
        places.clone().count() == self.owners.places()
            && places.all(|(_, waiter)| {
                let (all, several) = (waiter.stands.names().collect::<Vec<_>>(), waiter.stands.are_several());
                self.place_for(&all, several, &waiter.ask.owner).is_some()
            })
            && queued.count() == self.owners.len()
            && owners.iter().all(|owner| {
                let same = owners.iter().filter(|other| other == &owner).count();
                self.waits_of(owner, usize::MAX).unwrap().len() == same
            })
    }

    /// The grants of waiters that the server has not freed yet.
    pub(crate) fn given_grants(&self, at: At<'_>) -> BTreeSet<(Fence, Ticket)> {
        let records = self.line(at).into_iter().flat_map(|line| line.grants.iter());
        records.flat_map(|record| record.untold.iter().map(|hold| (record.fence, hold.ticket))).collect()
    }

    /// Whether that grant is to be told once replicas have it.
    pub(crate) fn is_unconfirmed(&self, at: At<'_>, fence: Fence) -> bool {
        let mut waiters = self.given(at, fence).filter_map(|hold| self.waiters.get(&hold.ticket));
        waiters.any(|waiter| matches!(waiter.phase, Phase::Unconfirmed(_)))
    }

    /// Whether something is confirmed by that, or is still to be asked for.
    pub(crate) fn is_to_confirm(&self, acks: &[Offset]) -> bool {
        self.is_to_ask() || self.confirmations.confirmed(acks).is_some()
    }

    /// Counts offsets from another one on; those from `most` on are alike.
    pub(crate) fn shift_offsets(&mut self, by: Offset, most: Offset) {
        self.confirmations.shift_offsets(by, most);
    }

    /// The connections that the state knows of.
    pub(crate) fn clients(&self) -> impl Iterator<Item = u64> {
        let lines = self.lines.values();
        let sessions = lines.flat_map(|line| line.grants.sessions()).map(|session| session.client);
        let waiters = self.waiters.values().map(|waiter| waiter.client_id);
        sessions.chain(waiters).chain(self.connections.clients())
    }

    /// Gives the connections other numbers.
    pub(crate) fn renumber_clients(&mut self, ids: &BTreeMap<u64, u64>) {
        for line in self.lines.values_mut() {
            line.grants.change_all(|record| {
                record.session.iter_mut().for_each(|session| session.client = ids[&session.client]);
            });
        }
        for waiter in self.waiters.values_mut() {
            waiter.client_id = ids[&waiter.client_id];
        }
        self.connections.renumber_clients(ids);
    }
}

impl<C: Copy> State<C> {
    /// Gives what is due at once the least numbers, in the same order.
    fn renumber_at_once(&mut self) {
        for place in self.timers.take_at_once() {
            if let Some(line) = self.lines.get_mut(place.at()) {
                line.timers.taken(Lane::Now);
            }
            self.look_by(place.at(), 0);
        }
    }
}

impl State<Ticket> {
    /// Gives the waiters the least numbers, in the same order; and forgets since when those wait whose time is not limited.
    pub(crate) fn renumber_tickets(&mut self) -> BTreeMap<Ticket, Ticket> {
        self.last_ticket = std::num::NonZeroU64::MIN;
        // What counts is whether it was before the renewal of a session.
        let renewals =
            self.lines.values().flat_map(|line| line.grants.sessions()).map(|session| session.renew_at);
        let renewals: Vec<Millis> = renewals.collect();
        self.timers.forget_last_run(&renewals);
        // It decides nothing.
        self.survey = Survey::new();
        self.lines.forget_held();
        let old: BTreeSet<Ticket> =
            self.waiters.keys().copied().chain(self.confirmations.tickets()).collect();
        let new: BTreeMap<Ticket, Ticket> =
            old.into_iter().map(|ticket| (ticket, self.next_ticket())).collect();
        for line in self.lines.values_mut() {
            let queued: Vec<Ticket> = line.queue.iter().collect();
            line.queue = Queue::default();
            for ticket in queued {
                line.queue.join(new[&ticket], self.waiters[&ticket].ask.owner.clone());
            }
            if let Some(upgrader) = &mut line.upgrader {
                upgrader.tickets = upgrader.tickets.iter().map(|ticket| new[ticket]).collect();
            }
            line.grants.change_all(|record| record.renumber_tickets(&new));
        }
        self.timers.renumber_tickets(&new);
        self.renumber_at_once();
        self.connections.renumber_tickets(&new);
        self.owners.renumber_tickets(&new);
        self.confirmations.renumber_tickets(&new);
        self.answered = std::mem::take(&mut self.answered)
            .into_iter()
            .filter_map(|due| match due {
                Due::Waiter(ticket) => new.get(&ticket).copied().map(Due::Waiter),
                due => Some(due),
            })
            .collect();
        self.waiters = std::mem::take(&mut self.waiters)
            .into_iter()
            .map(|(ticket, mut waiter)| {
                if let Way::Blocked(client) = &mut waiter.way {
                    *client = new[&ticket];
                }
                if waiter.timeout == 0 || waiter.phase != Phase::Queued {
                    waiter.since = 0;
                }
                (new[&ticket], waiter)
            })
            .collect();
        new
    }
}
