//! Sweeps: walks, little by little, through the entries of all locks.

use super::lock_id::LockId;
use super::lock_table::{Cursor, LockTable};

/// What a sweep is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(Hash))]
pub(super) enum Kind {
    /// Something has happened to all keys of this database; `None`: of all databases.
    Touched(Option<i32>),
    /// A setting that holds for all locks has changed.
    Rules,
}

/// A walk through all entries.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone, PartialEq, Eq, Hash))]
struct Sweep {
    kind: Kind,
    cursor: Cursor,
    /// The number of the change that the sweep is for.
    number: u64,
    /// The number of a later change of the same kind, for which all entries are to be seen again.
    again: Option<u64>,
}

/// The sweeps that have begun, and the number of the last change to keys.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone, PartialEq, Eq, Hash))]
pub(super) struct Sweeps {
    sweeps: Vec<Sweep>,
    last_number: u64,
}

/// The next piece of work.
pub(super) enum Next {
    Nothing,
    /// One sweep has come to its end.
    End,
    /// This entry is to be seen, because of the change with this number.
    Entry(Kind, u64, LockId),
}

impl Sweeps {
    pub(super) const fn new() -> Self {
        Self { sweeps: Vec::new(), last_number: 0 }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.sweeps.is_empty()
    }

    /// The number of the last change to keys.
    pub(super) fn last_number(&self) -> u64 {
        self.last_number
    }

    /// Gives a new change to keys its number.
    pub(super) fn next_number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    /// Starts a sweep. If a sweep of this kind has begun already, the new one comes after it, so that no entry is left out, however often
    /// sweeps are started.
    pub(super) fn start(&mut self, kind: Kind, cursor: Cursor) {
        let number = self.next_number();
        match self.sweeps.iter_mut().find(|sweep| sweep.kind == kind) {
            Some(sweep) => sweep.again = Some(number),
            None => self.sweeps.push(Sweep { kind, cursor, number, again: None }),
        }
    }

    /// Whether something has happened to all keys of a database after the change with this number, and not all of the locks have been
    /// looked at since.
    pub(super) fn is_touched_since(&self, db: i32, number: u64) -> bool {
        let mut sweeps = self.sweeps.iter().filter(|sweep| sweep.kind.touches(db));
        sweeps.any(|sweep| sweep.again.unwrap_or(sweep.number) > number)
    }

    /// The next entry to be seen.
    pub(super) fn next(&mut self, entries: &LockTable) -> Next {
        let Some(sweep) = self.sweeps.first_mut() else { return Next::Nothing };
        if let Some(id) = entries.before(&mut sweep.cursor) {
            return Next::Entry(sweep.kind, sweep.number, id.clone());
        }
        // A sweep that starts again comes after all others, so that frequent flushes hold nothing up.
        let Sweep { kind, again, .. } = self.sweeps.remove(0);
        let anew = |number| Sweep { kind, cursor: entries.end(), number, again: None };
        self.sweeps.extend(again.map(anew));
        Next::End
    }

    /// Notes that the entry has been seen.
    pub(super) fn advance(&mut self) {
        if let Some(sweep) = self.sweeps.first_mut() {
            sweep.cursor.advance();
        }
    }
}

impl Kind {
    /// Whether the sweep is for something that has happened to the keys of database `db`.
    pub(super) fn touches(self, db: i32) -> bool {
        matches!(self, Self::Touched(which) if which.is_none_or(|which| which == db))
    }
}
