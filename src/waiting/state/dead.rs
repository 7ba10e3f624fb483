//! Waiters that go away: what was granted to one that cannot be told any more is taken back, or is another's.

use super::State;
use crate::lock::{Fence, Ticket};
use crate::waiting::waiter::{Phase, Place};

impl State {
    /// A waiter can be told nothing any more.
    pub(in crate::waiting) fn depart(&mut self, ticket: Ticket) {
        self.leave(ticket, Phase::Left);
        let Some(waiter) = self.waiters.get_mut(&ticket) else { return };
        let phase = std::mem::replace(&mut waiter.phase, Phase::Left);
        let place = waiter.place.clone();
        let client = waiter.client_id;
        let Some(granted) = phase.granted() else { return };
        self.given.remove(&(granted, ticket));
        // Told, but in vain.
        let session = self.session(place.db, &place.key);
        if session.is_some_and(|session| (session.client, session.fence) == (client, granted)) {
            self.end_session(place.db, &place.key);
        }
        self.alarm(place.clone(), 0);
        if self.sharers.remove(&(granted, ticket)) || self.bequeath(granted, ticket) {
            return;
        }
        self.dead.entry(place).or_default().push(granted);
    }

    /// One that came later and asked for the grant back with `ONCE` has been told of the same hold: it is that one's now. Whether
    /// there is one.
    fn bequeath(&mut self, fence: Fence, ticket: Ticket) -> bool {
        let heir = self.sharers.range((fence, ticket)..).next().copied();
        heir.is_some_and(|heir| heir.0 == fence && self.sharers.remove(&heir))
    }

    /// A waiter has been given its grant without a hold of its own.
    pub(in crate::waiting) fn share_hold_with(&mut self, ticket: Ticket) {
        let granted = self.waiters.get(&ticket).and_then(|waiter| waiter.phase.granted());
        self.sharers.extend(granted.map(|fence| (fence, ticket)));
    }

    /// A running command has been told of the hold of that grant: it is not taken back with a waiter that was to be told of it.
    pub(in crate::waiting) fn share_hold(&mut self, fence: Fence) {
        let given = self.given(fence);
        self.sharers.extend(given.into_iter().map(|ticket| (fence, ticket)));
    }

    /// A grant on that lock whose waiter went away before it was answered.
    pub(in crate::waiting) fn take_dead(&mut self, db: i32, key: &[u8]) -> Option<Fence> {
        if self.dead.is_empty() {
            return None;
        }
        let place = Place { db, key: key.into() };
        let fences = self.dead.get_mut(&place)?;
        let fence = fences.pop();
        if fences.is_empty() {
            self.dead.remove(&place);
        }
        fence
    }

    /// The server has freed a waiter: what is left of it is dropped.
    pub(in crate::waiting) fn forget(&mut self, ticket: Ticket) {
        // Not told any more, whatever kept us from it.
        if self.waiters.get(&ticket).is_some_and(|waiter| !matches!(waiter.phase, Phase::Told(_))) {
            self.depart(ticket);
        }
        let granted = self.waiters.remove(&ticket).and_then(|waiter| waiter.phase.granted());
        if let Some(fence) = granted {
            self.given.remove(&(fence, ticket));
            self.sharers.remove(&(fence, ticket));
        }
    }
}
