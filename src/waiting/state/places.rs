//! Who waits without being blocked: a place in the queue, and a grant that is to be claimed.

use std::collections::BTreeSet;

use super::line::Line;
use super::message::Word;
use super::queue::Ticket;
use super::waiter::{Answer, Arrival, Way};
use super::{At, State};
use crate::lock::{Fence, Millis, Owner};

impl<C: Copy> State<C> {
    /// How many places a connection has.
    pub(crate) fn places_of(&self, client: u64) -> usize {
        self.places.get(&client).map_or(0, BTreeSet::len)
    }

    /// How many places there are.
    pub(crate) fn places(&self) -> usize {
        self.places.values().map(BTreeSet::len).sum()
    }

    /// The last place that an owner has taken in a queue, and its connection.
    pub(crate) fn place_in_queue(&self, at: At<'_>, owner: &Owner<'static>) -> Option<(Ticket, u64)> {
        let mut tickets = self.line(at)?.queue.all_of(owner).rev();
        tickets.find_map(|ticket| {
            let waiter = self.waiters.get(&ticket)?;
            waiter.channel().map(|_| (ticket, waiter.client_id))
        })
    }

    /// An owner asks again for what it waits for: it keeps its place, on the terms that it names now.
    pub(crate) fn keep_place(&mut self, ticket: Ticket, arrival: Arrival<C>) {
        let Some(waiter) = self.waiters.get_mut(&ticket) else { return };
        let (earlier, ends) = (waiter.client_id, arrival.gives_up());
        if let Some(at) = std::mem::replace(&mut waiter.ends, ends) {
            self.timeouts.remove(&(at, ticket));
        }
        let Arrival { ask, way, client_id, timeout, .. } = arrival;
        (waiter.ask, waiter.way, waiter.client_id, waiter.timeout) = (ask, way, client_id, timeout);
        self.timeouts.extend(ends.map(|at| (at, ticket)));
        self.forget_place(earlier, ticket);
        self.places.entry(client_id).or_default().insert(ticket);
    }

    /// A waiter has been granted its lock: if it is notified, it has so long to claim it, and hears what becomes of the grant.
    pub(super) fn grant_to_place(&mut self, ticket: Ticket, fence: Fence, now: Millis) {
        let Some(waiter) = self.waiters.get_mut(&ticket) else { return };
        let Way::Notified(channel) = &waiter.way else { return };
        let ends = now.saturating_add(waiter.ask.lease).saturating_add(1);
        waiter.ends = Some(ends);
        let (place, owner, channel) = (waiter.place.clone(), waiter.ask.owner.clone(), channel.clone());
        self.timeouts.insert((ends, ticket));
        self.watch_place(place.at(), fence, owner, channel);
    }

    /// The owner of that grant has been told of it: whatever was to be claimed of it is.
    pub(super) fn claim(&mut self, at: At<'_>, fence: Fence) {
        let unclaimed: Vec<Ticket> = self.unclaimed(at, fence).collect();
        if unclaimed.is_empty() {
            return;
        }
        for ticket in unclaimed {
            self.drop_waiter(ticket);
        }
        self.watch_claimed(at, fence);
        self.tell_wanted(at);
    }

    fn is_place(&self, ticket: Ticket) -> bool {
        self.waiters.get(&ticket).is_some_and(|waiter| waiter.channel().is_some())
    }

    /// An owner gives up its last place in that queue, or what it has not claimed of the grant with that fence; whether there was
    /// such.
    pub(crate) fn leave_queue(&mut self, at: At<'_>, owner: &Owner<'static>, held: Option<Fence>) -> bool {
        let queued = self.place_in_queue(at, owner).map(|(ticket, _)| ticket);
        let is_its =
            |ticket: &Ticket| self.waiters.get(ticket).is_some_and(|waiter| waiter.ask.owner == *owner);
        let granted = || self.unclaimed(at, held?).find(is_its);
        let Some(ticket) = queued.or_else(granted) else { return false };
        self.give_up(ticket);
        true
    }

    /// A place is given up. What it had been granted is taken back; the grant may live on by other holds of its owner.
    pub(crate) fn give_up(&mut self, ticket: Ticket) {
        let Some(waiter) = self.waiters.get(&ticket) else { return };
        let (place, granted) = (waiter.place.clone(), waiter.phase.granted());
        self.depart(ticket);
        self.drop_waiter(ticket);
        let fence = granted.filter(|fence| self.unclaimed(place.at(), *fence).next().is_none());
        if let Some(fence) = fence {
            self.watch_claimed(place.at(), fence);
        }
    }

    /// A connection has closed: its places are given up; whether it had any.
    pub(super) fn give_up_places(&mut self, client: u64) -> bool {
        let Some(tickets) = self.places.remove(&client) else { return false };
        for ticket in tickets {
            self.give_up(ticket);
        }
        true
    }

    pub(super) fn forget_place(&mut self, client: u64, ticket: Ticket) {
        if let Some(tickets) = self.places.get_mut(&client) {
            tickets.remove(&ticket);
            if tickets.is_empty() {
                self.places.remove(&client);
            }
        }
    }

    /// The lock is not this server's any more: those who are notified are told, and nothing that they were granted is ours to
    /// take back.
    pub(super) fn send_away(&mut self, at: At<'_>) {
        let Some(line) = self.line(at) else { return };
        let unclaimed: Vec<Ticket> = line.unclaimed.iter().map(|(_, ticket)| *ticket).collect();
        let queued: Vec<Ticket> = line.queue.iter().collect();
        for ticket in unclaimed {
            self.drop_waiter(ticket);
        }
        for ticket in queued.into_iter().filter(|ticket| self.is_place(*ticket)).collect::<Vec<_>>() {
            self.answer(ticket, Answer::Gone, 0);
        }
        self.end_watch(at, Some(|_| Word::Gone));
    }
}

impl Line {
    /// Whether somebody is told by messages; somebody in the queue, perhaps.
    pub(super) fn has_messages(&self) -> bool {
        self.watch.is_some() || !self.queue.is_empty() || !self.unclaimed.is_empty()
    }
}
