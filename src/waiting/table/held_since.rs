//! Which of the locks that somebody waits for has been held longest.
//!
//! The time of each grant stands in its key. Here a lock is noted when somebody begins to wait for it, with the time of its oldest
//! grant; a handover does not change the note. Grants that come later are younger, so no lock has been held for longer than its note
//! says. Whoever asks looks at the locks in the order of the notes and sets those right that are out of date, until one is as it was
//! noted: none behind it can have been held longer.

use std::collections::BTreeSet;
use std::num::NonZero;

use super::lock_id::LockId;
use crate::lock::Millis;

/// A time in ms; 0 is none, to save room.
pub(super) type Since = NonZero<Millis>;

/// The locks, by a time since which each has been held at most.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone, PartialEq, Eq))]
pub(super) struct HeldSince(BTreeSet<(Since, LockId)>);

impl HeldSince {
    pub(super) const fn new() -> Self {
        Self(BTreeSet::new())
    }

    pub(super) fn first(&self) -> Option<&(Since, LockId)> {
        self.0.first()
    }

    /// Notes a lock in place of an earlier note, or forgets it.
    pub(super) fn note(&mut self, held: &mut Option<Since>, since: Option<Since>, id: &LockId) {
        if let Some(earlier) = std::mem::replace(held, since) {
            self.0.remove(&(earlier, id.clone()));
        }
        self.0.extend(since.map(|since| (since, id.clone())));
    }
}

#[cfg(any(test, debug_assertions))]
impl HeldSince {
    pub(super) fn iter(&self) -> impl Iterator<Item = &(Since, LockId)> {
        self.0.iter()
    }
}
