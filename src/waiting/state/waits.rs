//! What waits for what: for those who ask whether a wait could ever end.

use super::line::Line;
use super::queue::Ticket;
use super::waiter::Phase;
use super::{At, Place, State};
use crate::lock::{Ask, Fence, Owner, Room};

/// One who stands in front of another in a queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ahead {
    pub(crate) ticket: Ticket,
    pub(crate) room: Room,
    /// It waits for other locks too.
    pub(crate) several: bool,
}

impl<C: Copy> State<C> {
    /// The waits of an owner; none where they are more than that.
    pub(crate) fn waits_of(&self, owner: &Owner<'_>, most: usize) -> Option<Vec<Ticket>> {
        let mut perhaps = self.owners.perhaps(owner);
        let is_its = |ticket: &Ticket| {
            self.waiters.get(ticket).is_some_and(|waiter| waiter.ask.owner.borrowed() == owner.borrowed())
        };
        let waits = perhaps.by_ref().take(most).filter(is_its).collect();
        perhaps.next().is_none().then_some(waits)
    }

    /// Whether anybody waits for several locks.
    pub(crate) fn has_several(&self) -> bool {
        self.owners.has_several()
    }

    /// What one asks for that stands in queues; none where its connection has closed.
    pub(crate) fn ask_of(&self, ticket: Ticket) -> Option<Ask<'static>> {
        let waiter = self.waiters.get(&ticket).filter(|waiter| waiter.phase == Phase::Queued)?;
        (!self.connections.is_closed(waiter.client_id)).then(|| waiter.ask.clone())
    }

    /// The locks that a waiter waits for.
    pub(crate) fn places_of_wait(&self, ticket: Ticket) -> Vec<Place> {
        let stands = self.waiters.get(&ticket).into_iter().flat_map(|waiter| waiter.stands.all());
        stands.map(|stand| stand.place.clone()).collect()
    }

    /// Who is served before that one, or before one who comes now: the next one first.
    pub(crate) fn ahead_of(&self, at: At<'_>, ticket: Option<Ticket>) -> impl Iterator<Item = Ahead> {
        let line = self.line(at).into_iter();
        let ahead = line.flat_map(Line::in_order).take_while(move |other| Some(*other) != ticket);
        ahead.filter_map(|ticket| {
            let waiter = self.waiters.get(&ticket)?;
            if self.connections.is_closed(waiter.client_id) {
                // It keeps nobody waiting.
                return Some(Ahead { ticket, room: Room::ANY, several: false });
            }
            Some(Ahead { ticket, room: waiter.ask.room, several: waiter.stands.are_several() })
        })
    }

    /// The connection that keeps a grant alive, and the last wait in which it was blocked. That may be over.
    pub(crate) fn keeper(&self, at: At<'_>, fence: Fence) -> Option<(u64, Option<Ticket>)> {
        let client = self.session_client(at, fence)?;
        Some((client, self.connections.blocked(client)))
    }
}
