//! Finds, of all locks with waiters, the one that has been held longest.
//!
//! A grant's time is in its key. When somebody begins to wait for a lock, the lock is noted here with the time of its oldest grant; a
//! handover does not change the note. Later grants are younger, so no lock has been held for longer than its note says. A query looks at
//! the locks in the order of the notes, and corrects notes that are out of date, until it finds a note that is still right: no lock behind
//! it can have been held longer.

use std::num::NonZero;

use super::index::Index;
use super::lock_id::LockId;
use crate::lock::Millis;

/// A time in ms. It is not 0, so that an `Option` takes no more memory.
pub(super) type Since = NonZero<Millis>;

/// The locks, each with a time since which it has been held at the earliest.
#[derive(Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(Clone))]
pub(super) struct HeldSince(Index<Since, LockId>);

impl HeldSince {
    pub(super) const fn new() -> Self {
        Self(Index::new())
    }

    pub(super) fn first(&self) -> Option<&(Since, LockId)> {
        self.0.first()
    }

    /// Replaces a lock's earlier note; with `None`, removes it. `held` is the copy of the note in the lock's entry.
    pub(super) fn note(&mut self, held: &mut Option<Since>, since: Option<Since>, id: &LockId) {
        self.0.set(id, std::mem::replace(held, since), since);
    }
}
