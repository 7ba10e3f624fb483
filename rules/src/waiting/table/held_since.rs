//! Finds, among all locks with waiters, the lock that has been held longest.
//!
//! The time when a grant was made is in the lock's key. When somebody begins to wait for a lock, the lock is noted here with the time of
//! its oldest grant. A handover does not change this note. Later grants are younger, so no lock has been held for longer than its note
//! says. A query looks at the locks in the order of the notes, and corrects notes that are out of date, until it finds a note that is still
//! right. No lock behind this note can have been held longer.

use std::num::NonZero;

use super::index::Index;
use super::lock_id::LockId;
use crate::lock::Millis;

/// A time in ms since 1970. The time is never 0, so that an `Option` of it takes no more memory.
pub(super) type Since = NonZero<Millis>;

/// The locks with waiters, each with a time before which none of its present grants was made.
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

    /// Replaces a lock's earlier note, or removes the note if `since` is `None`. `held` is the copy of the note in the lock's entry, and
    /// changes with it.
    pub(super) fn note(&mut self, held: &mut Option<Since>, since: Option<Since>, id: &LockId) {
        self.0.set(id, std::mem::replace(held, since), since);
    }
}
