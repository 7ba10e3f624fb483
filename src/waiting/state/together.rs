//! Who waits for several locks at once: one place in the queue of each, with one ticket. It is looked at when the lock that keeps
//! it waiting may do so no more (as a clause of a SAT solver watches one literal), so that it costs nothing whenever another of
//! its locks changes.

use std::collections::BTreeSet;

use super::queue::Ticket;
use super::waiter::{Phase, Stand, Stands};
use super::{At, Place, State};
use crate::lock::{Ask, Millis, Owner};

impl<C: Copy> State<C> {
    /// Whether that waiter waits for several locks. Then it is to be tried, where this lock has kept it waiting.
    pub(crate) fn try_soon(&mut self, at: At<'_>, ticket: Ticket) -> bool {
        let Some(waiter) = self.waiters.get(&ticket) else { return false };
        let Stands::Several { stands, stuck } = &waiter.stands else { return false };
        if waiter.phase == Phase::Queued && stands.get(*stuck).is_some_and(|stand| stand.place.is(at)) {
            self.timers.try_soon(ticket);
        }
        true
    }

    /// The next one to be tried, and all its locks.
    pub(crate) fn next_try(&mut self) -> Option<(Ticket, Vec<Place>)> {
        loop {
            let ticket = self.timers.take_try()?;
            if let Some(found) = self.with_places(ticket) {
                return Some(found);
            }
        }
    }

    /// Sets aside who is to be tried, while one of them is; and whether one of its locks was to be looked at anyway.
    pub(crate) fn set_tries_aside(&mut self, ticket: Ticket, now: Millis) -> (BTreeSet<Ticket>, bool) {
        let waiter = self.waiters.get(&ticket);
        let mut stands = waiter.into_iter().flat_map(|waiter| waiter.stands.all());
        let is_due = stands.any(|stand| self.is_overdue(&stand.place, now));
        (self.timers.set_tries_aside(), is_due)
    }

    fn with_places(&self, ticket: Ticket) -> Option<(Ticket, Vec<Place>)> {
        let stands = &self.waiters.get(&ticket)?.stands;
        Some((ticket, stands.all().iter().map(|stand| stand.place.clone()).collect()))
    }

    /// The same, where that is the one whose time was up first.
    pub(crate) fn overdue_try(&mut self, now: Millis) -> Option<(Ticket, Vec<Place>)> {
        let ticket = self.timers.first_timed_out(now)?;
        if self.timers.cancel_try(ticket) { self.with_places(ticket) } else { None }
    }

    /// A waiter could not be tried: its locks are looked at then.
    pub(crate) fn look_at_all(&mut self, places: &[Place], time: Millis) {
        for place in places {
            self.look_by(place.at(), time);
        }
    }

    /// What a waiter asks for that is being tried; none where it stands in no queue any more.
    pub(crate) fn take_try(&mut self, ticket: Ticket) -> Option<Ask<'static>> {
        self.timers.cancel_try(ticket);
        let waiter = self.waiters.get(&ticket).filter(|waiter| waiter.phase == Phase::Queued)?;
        Some(waiter.ask.clone())
    }

    /// The lock of that number keeps it waiting.
    pub(crate) fn stuck_at(&mut self, ticket: Ticket, number: usize) {
        let waiter = self.waiters.get_mut(&ticket);
        if let Some(Stands::Several { stuck, .. }) = waiter.map(|waiter| &mut waiter.stands) {
            *stuck = number;
        }
    }

    /// The owner for whom a lock is reserved when it is free, since it is next here and waits for others too.
    pub(crate) fn reserved_for(&self, at: At<'_>) -> Option<Owner<'static>> {
        let next = self.line(at)?.head().and_then(|head| self.waiters.get(&head));
        next.filter(|waiter| waiter.stands.are_several()).map(|waiter| waiter.ask.owner.clone())
    }

    /// The last place that an owner has taken for exactly those locks, and its connection.
    pub(crate) fn place_for(
        &self,
        all: &[At<'_>],
        several: bool,
        owner: &Owner<'static>,
    ) -> Option<(Ticket, u64)> {
        let named: BTreeSet<_> = all.iter().map(|at| (at.db, at.key)).collect();
        let is_named = |stand: &Stand| named.contains(&(stand.place.db, stand.place.key.as_ref()));
        let tickets = self.owners.perhaps_places(owner, all.iter().copied(), several);
        let mut waiters = tickets.filter_map(|ticket| Some((ticket, self.waiters.get(&ticket)?)));
        waiters.find_map(|(ticket, waiter)| {
            let stands = waiter.stands.all();
            let same = stands.len() == named.len() && stands.iter().all(is_named);
            let alike = same && waiter.stands.are_several() == several && waiter.ask.owner == *owner;
            alike.then_some((ticket, waiter.client_id))
        })
    }
}
