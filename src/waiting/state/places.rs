//! Who waits without being blocked: a place in the queue, and a grant that is to be claimed.

use super::line::Line;
use super::message::Word;
use super::queue::Ticket;
use super::waiter::{Answer, Arrival, Stands, Way};
use super::{AT_ONCE, At, State};
use crate::lock::{Fence, Millis, Owner};
use crate::waiting::Left;

impl<C: Copy> State<C> {
    /// How many locks hang on a connection: those that it has places for, and those that it keeps alive. See `At::weight`.
    pub(crate) fn weight_of(&self, client: u64) -> usize {
        self.connections.weight_of(client)
    }

    /// How many places there are.
    pub(crate) fn places(&self) -> usize {
        self.connections.places()
    }

    /// The last place that an owner has taken in a queue, and its connection.
    fn place_in_queue(&self, at: At<'_>, owner: &Owner<'static>) -> Option<(Ticket, u64)> {
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
        self.timers.cancel_timeout(ticket, std::mem::replace(&mut waiter.ends, ends));
        let weight = waiter.stands.weight();
        let Arrival { ask, way, client_id, timeout, .. } = arrival;
        (waiter.ask, waiter.way, waiter.client_id, waiter.timeout) = (ask, way, client_id, timeout);
        if waiter.stands.are_several() {
            let stands = waiter.stands.clone();
            self.ask_anew(ticket, &stands);
        }
        self.timers.set_timeout(ticket, ends);
        self.connections.remove_place(earlier, ticket);
        self.connections.add_place(client_id, ticket, weight);
    }

    /// One who waits for several locks may have them now. Whether it waits in front of others is seen then.
    fn ask_anew(&mut self, ticket: Ticket, stands: &Stands) {
        self.timers.try_soon(ticket);
        for stand in stands.all() {
            let at = stand.place.at();
            self.with_line(at, |line| line.end_upgrade(ticket));
            self.look_by(at, 0);
        }
    }

    /// A waiter has been granted its lock: if it is notified, it has so long to claim it, and hears what becomes of the grant.
    pub(super) fn grant_to_place(&mut self, ticket: Ticket, now: Millis) {
        let Some(waiter) = self.waiters.get_mut(&ticket) else { return };
        let Way::Notified(channel) = &waiter.way else { return };
        // After its lease has lapsed, where that is as short: so the lapse is told. Leases may be rounded up by a millisecond.
        let ends = now.saturating_add(waiter.ask.lease).saturating_add(3);
        waiter.ends = Some(ends);
        let (stands, owner, channel) = (waiter.stands.clone(), waiter.ask.owner.clone(), channel.clone());
        self.timers.set_timeout(ticket, Some(ends));
        for stand in stands.all() {
            let Some(fence) = stand.fence() else { continue };
            self.watch_untold(stand.place.at(), fence, owner.clone(), channel.clone());
        }
    }

    /// The owner of that grant has been told of it: whatever was to be claimed of it is.
    pub(super) fn claim(&mut self, at: At<'_>, fence: Fence) {
        let unclaimed: Vec<Ticket> = self.unclaimed(at, fence).collect();
        if unclaimed.is_empty() {
            return;
        }
        for ticket in unclaimed {
            let stands = self.waiters.get(&ticket).map(|waiter| waiter.stands.clone());
            self.drop_waiter(ticket);
            // Its owner knows of all that it waited for at once.
            for stand in stands.iter().filter(|stands| stands.are_several()).flat_map(Stands::all) {
                let Some(fence) = stand.fence() else { continue };
                self.watch_claimed(stand.place.at(), fence);
                self.tell_wanted(stand.place.at());
            }
        }
        self.watch_claimed(at, fence);
        self.tell_wanted(at);
    }

    /// Whether a place may be given a grant that its owner has already: not while its owner, and others, have so many to claim. (One
    /// claim is for all that an owner has been given of a lock.) If not, it is tried again when some of those are claimed.
    pub(crate) fn may_be_given(&mut self, at: At<'_>, ticket: Ticket, most: u32) -> bool {
        if !self.is_place(ticket) {
            return true;
        }
        let full = |line: &mut Line| {
            let full = line.unclaimed_locks >= most;
            line.put_off |= full;
            full
        };
        !self.with_line(at, full).unwrap_or_default()
    }

    fn is_place(&self, ticket: Ticket) -> bool {
        self.waiters.get(&ticket).is_some_and(|waiter| waiter.channel().is_some())
    }

    /// An owner gives up its last place in that queue, or what it has not claimed of the grant with that fence.
    pub(crate) fn leave_queue(&mut self, at: At<'_>, owner: &Owner<'static>, held: Option<Fence>) -> Left {
        let queued = self.place_in_queue(at, owner).map(|(ticket, _)| ticket);
        let is_its =
            |ticket: &Ticket| self.waiters.get(ticket).is_some_and(|waiter| waiter.ask.owner == *owner);
        let granted = || self.unclaimed(at, held?).find(is_its);
        let Some(ticket) = queued.or_else(granted) else { return Left::default() };
        let stands = self.waiters.get(&ticket).map(|waiter| waiter.stands.clone());
        let others = stands.iter().flat_map(Stands::all).filter(|stand| stand.got.is_some());
        let others = others.map(|stand| stand.place.clone()).filter(|place| !place.is(at)).collect();
        self.give_up(ticket);
        Left { any: true, others }
    }

    /// A place is given up. What it had been granted is taken back; the grant may live on by other holds of its owner. For how many
    /// locks it was.
    pub(crate) fn give_up(&mut self, ticket: Ticket) -> u32 {
        let Some(waiter) = self.waiters.get(&ticket) else { return 0 };
        let locks = waiter.stands.all().len() as u32;
        let granted = waiter.phase.is_granted().then(|| waiter.stands.clone());
        self.depart(ticket);
        self.drop_waiter(ticket);
        for stand in granted.iter().flat_map(Stands::all) {
            let (at, fence) = (stand.place.at(), stand.fence());
            let fence = fence.filter(|fence| self.unclaimed(at, *fence).next().is_none());
            if let Some(fence) = fence {
                self.watch_claimed(at, fence);
            }
        }
        locks
    }

    /// Whether that is a place whose connection has closed, and which has not been cleared up yet.
    pub(crate) fn is_gone(&self, ticket: Ticket) -> bool {
        let place = || self.waiters.get(&ticket).filter(|waiter| waiter.channel().is_some());
        self.connections.has_closed()
            && place().is_some_and(|waiter| self.connections.is_closed(waiter.client_id))
    }

    /// The lock is not this server's any more: those who are notified are told, and nothing that they were granted is ours to
    /// take back. Whether all are told.
    pub(super) fn send_away(&mut self, at: At<'_>) -> bool {
        let Some(line) = self.line(at) else { return true };
        let places = line.queue.iter().filter(|ticket| self.is_place(*ticket));
        let queued: Vec<Ticket> = places.take(AT_ONCE).collect();
        for ticket in &queued {
            self.answer(*ticket, Answer::Gone);
        }
        self.end_grants(at, |_| Word::Gone);
        queued.len() < AT_ONCE
    }
}
