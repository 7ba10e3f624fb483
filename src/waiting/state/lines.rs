//! The queues, one to a lock: who comes, who is next, who leaves.

use super::line::{Due, Line};
use super::message::Wanted;
use super::queue::Ticket;
use super::waiter::{Arrival, Phase, Waiter, WaiterInfo, Way};
use super::{At, Place, State};
use crate::lock::{Ask, Now, Owner};

impl<C: Copy> State<C> {
    pub(super) fn line(&self, at: At<'_>) -> Option<&Line> {
        self.lines.get(at)
    }

    /// Changes a line, where there is one, and drops it if nothing is left of it.
    pub(super) fn with_line<R>(&mut self, at: At<'_>, body: impl FnOnce(&mut Line) -> R) -> Option<R> {
        let line = self.lines.get_mut(at)?;
        let result = body(line);
        if line.is_over() {
            self.forget_alarms(at);
            self.lines.remove(at);
        }
        Some(result)
    }

    /// The line of a lock, made where there is none, and its name, shared with it.
    pub(super) fn open_line(&mut self, at: At<'_>) -> (Place, &mut Line) {
        let place = self.lines.place(at).unwrap_or_else(|| at.to_place());
        (place.clone(), self.lines.open(place))
    }

    /// What of a lock is to be looked at.
    pub(crate) fn due(&self, at: At<'_>) -> Due {
        self.line(at).map_or_else(Due::default, |line| Due {
            lapsed: line.lapsed.is_some(),
            dead: !line.dead.is_empty(),
            session: line.session.is_some(),
            watched: line.watch.as_ref().map(|watch| watch.fence),
        })
    }

    /// The name of a line, shared with it.
    pub(super) fn place(&self, at: At<'_>) -> Option<Place> {
        self.lines.place(at)
    }

    /// The number of a waiter that comes now; never used twice.
    pub(crate) fn next_ticket(&mut self) -> Ticket {
        self.last_ticket = self.last_ticket.saturating_add(1);
        Ticket(self.last_ticket)
    }

    pub(crate) fn waiters_of(&self, at: At<'_>) -> usize {
        self.line(at).map_or(0, |line| line.queue.len())
    }

    /// Who waits for a lock, first come first.
    pub(crate) fn queue_of(&self, at: At<'_>, now: Now) -> Vec<WaiterInfo> {
        let tickets = self.line(at).into_iter().flat_map(|line| line.queue.iter());
        let waiters = tickets.filter_map(|ticket| self.waiters.get(&ticket));
        waiters.map(|waiter| WaiterInfo::new(waiter, now)).collect()
    }

    pub(crate) fn join(&mut self, at: At<'_>, ticket: Ticket, arrival: Arrival<C>) {
        let (place, line) = self.open_line(at);
        line.queue.join(ticket, arrival.ask.owner.clone());
        if let Way::Notified(_) = arrival.way {
            self.connections.add_place(arrival.client_id, ticket);
        }
        let waiter = Waiter::new(place, arrival);
        self.timeouts.extend(waiter.ends.map(|at| (at, ticket)));
        self.waiters.insert(ticket, waiter);
        self.queued += 1;
        self.tell_wanted(at);
    }

    /// The first waiter of a line, and what it asks for.
    pub(crate) fn head(&self, at: At<'_>) -> Option<(Ticket, Ask<'static>)> {
        self.asked(self.line(at)?.queue.head()?)
    }

    /// The first waiter of a line that is still there, and what it asks for. Places of connections that have closed are given up
    /// on the way, so many at most.
    pub(crate) fn next_head(&mut self, at: At<'_>, most: usize) -> Option<(Ticket, Ask<'static>)> {
        for _ in 0..most {
            let (ticket, ask) = self.head(at)?;
            if !self.give_up_if_gone(ticket) {
                return Some((ticket, ask));
            }
        }
        self.head(at)
    }

    /// The first waiter of a line with that owner, and what it asks for.
    pub(crate) fn head_of(&self, at: At<'_>, owner: &Owner<'static>) -> Option<(Ticket, Ask<'static>)> {
        self.asked(self.line(at)?.queue.first_of(owner)?)
    }

    fn asked(&self, ticket: Ticket) -> Option<(Ticket, Ask<'static>)> {
        Some((ticket, self.waiters.get(&ticket)?.ask.clone()))
    }

    /// The one way out of a queue, for whatever reason; whether the waiter stood in it.
    pub(super) fn leave(&mut self, ticket: Ticket, next: Phase) -> bool {
        let Some(waiter) = self.waiters.get_mut(&ticket) else { return false };
        if waiter.phase != Phase::Queued {
            return false;
        }
        waiter.phase = next;
        self.queued -= 1;
        let place = waiter.place.clone();
        let owner = waiter.ask.owner.clone();
        let is_place = waiter.channel().is_some();
        if let Some(at) = waiter.ends.take() {
            self.timeouts.remove(&(at, ticket));
        }
        self.with_line(place.at(), |line| {
            line.queue.leave(ticket, &owner);
            if let Some(watch) =
                line.watch.as_mut().filter(|watch| line.queue.is_empty() && watch.wanted == Wanted::Told)
            {
                watch.wanted = Wanted::No;
            }
            let given = if is_place { &mut line.unclaimed } else { &mut line.given };
            given.extend(next.granted().map(|fence| (fence, ticket)));
        });
        true
    }
}
