//! One lock: its queue, its sessions, and the grants of waiters that are not told yet.

use std::collections::{BTreeMap, BTreeSet};

use super::message::Watch;
use super::queue::{Queue, Ticket};
use super::waiter::Session;
use crate::lock::{Fence, Grant, Millis};

/// What is known of one lock beside its grant. Grants are told apart by their fences: on one lock no two have the same.
#[derive(Debug, Default)]
#[cfg_attr(test, derive(Clone, PartialEq, Eq, Hash))]
pub(super) struct Line {
    pub(super) queue: Queue,
    /// What keeps grants alive, by their fences.
    pub(super) sessions: Vec<Session>,
    pub(super) alarm: Option<Millis>,
    pub(super) renewal: Option<Millis>,
    /// By grant, those who were given it and may turn out to be gone: until the server has freed them, told or not.
    pub(super) given: BTreeSet<(Fence, Ticket)>,
    /// The same of those who are notified: until they claim it, or give it up.
    pub(super) unclaimed: BTreeSet<(Fence, Ticket)>,
    /// For how many locks those wait, all together.
    pub(super) unclaimed_locks: u32,
    /// A re-entry has been put off until some of those are claimed.
    pub(super) put_off: bool,
    /// Those of them who were given it without a hold of their own (`ONCE`).
    pub(super) sharers: BTreeSet<(Fence, Ticket)>,
    /// Grants whose waiter went away before it was answered, and how many holds of each are to be taken back.
    pub(super) undeliverable: BTreeMap<Fence, u32>,
    /// Grants whose leases ended while this server stood still, and whose sessions outlive that. A box, since that is rare.
    pub(super) lapsed: Option<Box<Lapsed>>,
    /// The holders that hear what becomes of their grants, by their fences.
    pub(super) watches: Vec<Watch>,
    /// Holders are to be told that somebody waits.
    pub(super) wanted: bool,
    /// The holder whose waiters stand in front of all others, since they want less room than its grant has.
    pub(super) upgrader: Option<Box<Upgrader>>,
    /// Somebody else may have changed the lock: all that is known of it is to be compared with what it is now.
    pub(super) through: bool,
}

/// The owner of that grant waits to have it with less room.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone, PartialEq, Eq, Hash))]
pub(super) struct Upgrader {
    pub(super) fence: Fence,
    /// In these places of the queue.
    pub(super) tickets: BTreeSet<Ticket>,
}

/// The grants of a key that the server has deleted, since their leases were over.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone, PartialEq, Eq, Hash))]
pub(crate) struct Lapsed {
    pub(crate) grants: Vec<Grant>,
    /// Something has been done to the key since: they are not given back.
    pub(crate) for_good: bool,
    /// How much had happened to keys when they were kept.
    pub(super) kept_at: u64,
}

/// What there is of a line that a look at the lock sees to.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Due {
    /// Grants whose leases ended while this server stood still.
    pub(crate) lapsed: bool,
    /// A grant whose waiter went away.
    pub(crate) undeliverable: bool,
    pub(crate) session: bool,
    /// All sessions, not only those of connections that have closed.
    pub(crate) sessions: bool,
    /// A grant whose holder hears what becomes of it.
    pub(crate) watched: bool,
    /// Whether all such grants are still there.
    pub(crate) watches: bool,
    /// All that is known of the lock is to be compared with what it is now.
    pub(crate) through: bool,
}

impl Line {
    /// Whether nothing is left of it.
    pub(super) fn is_over(&self) -> bool {
        self.queue.is_empty()
            && self.sessions.is_empty()
            && self.given.is_empty()
            && self.unclaimed.is_empty()
            && self.undeliverable.is_empty()
            && self.lapsed.is_none()
            && self.watches.is_empty()
    }

    /// Whether somebody is to hear of a lapse, since they wait or hold the lock.
    pub(super) fn is_watched(&self) -> bool {
        !self.queue.is_empty() || !self.watches.is_empty()
    }

    /// The first waiter: those of an upgrader stand in front.
    pub(super) fn head(&self) -> Option<Ticket> {
        let first = |upgrader: &Upgrader| upgrader.tickets.first().copied();
        self.upgrader.as_deref().and_then(first).or_else(|| self.queue.head())
    }

    /// All waiters, in the order in which they are served.
    pub(super) fn in_order(&self) -> impl Iterator<Item = Ticket> {
        let first = self.upgrader.as_deref().map(|upgrader| &upgrader.tickets);
        let is_first = move |ticket: &Ticket| first.is_some_and(|first| first.contains(ticket));
        first.into_iter().flatten().copied().chain(self.queue.iter().filter(move |ticket| !is_first(ticket)))
    }

    /// One that stood in front does so no more.
    pub(super) fn end_upgrade(&mut self, ticket: Ticket) {
        if let Some(upgrader) = &mut self.upgrader {
            upgrader.tickets.remove(&ticket);
        }
        self.upgrader.take_if(|upgrader| upgrader.tickets.is_empty());
    }

    /// A place has been given that grant, as one of so many locks.
    pub(super) fn add_unclaimed(&mut self, fence: Fence, ticket: Ticket, locks: usize) {
        if self.unclaimed.insert((fence, ticket)) {
            self.unclaimed_locks += locks as u32;
        }
    }

    /// A place has claimed that grant, or given it up; whether it had been given it. What was put off is to be looked at again then.
    pub(super) fn remove_unclaimed(&mut self, fence: Fence, ticket: Ticket, locks: usize) -> bool {
        let removed = self.unclaimed.remove(&(fence, ticket));
        if removed {
            self.unclaimed_locks -= locks as u32;
            self.through |= std::mem::take(&mut self.put_off);
        }
        removed
    }

    pub(super) fn session(&self, fence: Fence) -> Option<&Session> {
        let place = self.sessions.binary_search_by_key(&fence, |session| session.fence).ok()?;
        self.sessions.get(place)
    }

    /// Whatever was granted is no more this server's to take back or to keep alive, and whoever is still to be told of it takes
    /// nothing with it when it goes.
    pub(super) fn forget_grants(&mut self) {
        self.undeliverable.clear();
        self.given.clear();
        self.sharers.clear();
        self.lapsed = None;
    }
}

/// There is one for each lock that is waited for, or kept alive. Allocators step from 256 bytes to 320.
const _: () = assert!(size_of::<Line>() <= 256);
