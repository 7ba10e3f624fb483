//! Waiters that go away: what was granted to one that cannot be told any more is taken back, or is another's.

use super::State;
use crate::lock::{Fence, Ticket};
use crate::waiting::waiter::{Answer, Phase};

impl State {
    /// A waiter can be told nothing any more.
    pub(in crate::waiting) fn depart(&mut self, ticket: Ticket) {
        self.leave(ticket, Phase::Left);
        let Some(waiter) = self.waiters.get_mut(&ticket) else { return };
        let phase = std::mem::replace(&mut waiter.phase, Phase::Left);
        let place = waiter.place.clone();
        let client = waiter.client_id;
        let Some((granted, own_hold)) = hold_of(&mut { phase }).map(|(fence, own)| (fence, *own)) else {
            return;
        };
        // Told, but in vain.
        let session = self.session(place.db, &place.key);
        if session.is_some_and(|session| (session.client, session.fence) == (client, granted)) {
            self.end_session(place.db, &place.key);
        }
        if !own_hold {
            return;
        }
        // One that asked for the grant back with `ONCE` has been told of the same hold: it is that one's now.
        let heir = self.waiters.values_mut().find_map(|waiter| match hold_of(&mut waiter.phase) {
            Some((fence, own_hold)) if fence == granted && !*own_hold => Some(own_hold),
            _ => None,
        });
        match heir {
            Some(own_hold) => *own_hold = true,
            None => {
                self.dead.push((place.clone(), granted));
                self.alarm(place, 0);
            }
        }
    }

    /// A running command has been told of the hold of that grant: it is not taken back with a waiter that was to be told of it.
    pub(in crate::waiting) fn share_hold(&mut self, fence: Fence) {
        for ticket in &self.answered {
            if let Some((granted, own_hold)) =
                self.waiters.get_mut(ticket).and_then(|waiter| hold_of(&mut waiter.phase))
                && granted == fence
            {
                *own_hold = false;
            }
        }
    }

    /// A grant on that lock whose waiter went away before it was answered.
    pub(in crate::waiting) fn take_dead(&mut self, db: i32, key: &[u8]) -> Option<Fence> {
        let found = self.dead.iter().position(|(place, _)| place.db == db && *place.key == *key)?;
        Some(self.dead.swap_remove(found).1)
    }

    /// The server has freed a waiter: what is left of it is dropped.
    pub(in crate::waiting) fn forget(&mut self, ticket: Ticket) {
        // Not told any more, whatever kept us from it.
        if self.waiters.get(&ticket).is_some_and(|waiter| !matches!(waiter.phase, Phase::Told(_))) {
            self.depart(ticket);
        }
        self.waiters.remove(&ticket);
    }
}

/// The fence of the grant that a waiter has been given, told or not, and whether a hold was made for it.
fn hold_of(phase: &mut Phase) -> Option<(Fence, &mut bool)> {
    match phase {
        Phase::Answered(Answer::Granted { fence, own_hold, .. })
        | Phase::Told(Answer::Granted { fence, own_hold, .. }) => Some((*fence, own_hold)),
        _ => None,
    }
}
