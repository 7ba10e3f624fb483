//! Sweeps: walks through the entries of all locks, a few at a time, after an event that concerns many locks.

use super::lock_id::LockId;
use super::lock_table::{Cursor, LockTable};

/// The reason for a sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(Hash))]
pub(super) enum Kind {
    /// Something, such as a flush, has happened to all keys of this database; `None` stands for all databases.
    Touched(Option<i32>),
    /// A setting that applies to all locks has changed.
    Rules,
}

/// A walk through all entries.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone, PartialEq, Eq, Hash))]
struct Sweep {
    kind: Kind,
    cursor: Cursor,
    /// The number of the change for which the sweep was started.
    number: u64,
    /// The number of a later change of the same kind, for which the sweep has to visit all entries once more.
    again: Option<u64>,
}

/// The sweeps that have begun, and the number of the last change. Each change to a key or to many keys has a number.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone, PartialEq, Eq, Hash))]
pub(super) struct Sweeps {
    sweeps: Vec<Sweep>,
    last_number: u64,
}

/// The next piece of work of a sweep.
pub(super) enum Next {
    Nothing,
    /// A sweep has come to its end.
    End,
    /// A sweep of this kind, for the change with this number, now visits the entry of this lock.
    Entry(Kind, u64, LockId),
}

impl Sweeps {
    pub(super) const fn new() -> Self {
        Self { sweeps: Vec::new(), last_number: 0 }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.sweeps.is_empty()
    }

    pub(super) fn last_number(&self) -> u64 {
        self.last_number
    }

    /// Gives a new change to keys its number.
    pub(super) fn next_number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    /// Starts a sweep. If a sweep of this kind has already begun, it goes on, and the new sweep follows it. So no entry is left out,
    /// however often sweeps are started.
    pub(super) fn start(&mut self, kind: Kind, cursor: Cursor) {
        let number = self.next_number();
        match self.sweeps.iter_mut().find(|sweep| sweep.kind == kind) {
            Some(sweep) => sweep.again = Some(number),
            None => self.sweeps.push(Sweep { kind, cursor, number, again: None }),
        }
    }

    /// Whether something has happened to all keys of a database after the change with this number, and the sweep for this has not visited
    /// all locks yet.
    pub(super) fn is_touched_since(&self, db: i32, number: u64) -> bool {
        let mut sweeps = self.sweeps.iter().filter(|sweep| sweep.kind.touches(db));
        sweeps.any(|sweep| sweep.again.unwrap_or(sweep.number) > number)
    }

    pub(super) fn next(&mut self, entries: &LockTable) -> Next {
        let Some(sweep) = self.sweeps.first_mut() else { return Next::Nothing };
        if let Some(id) = entries.before(&mut sweep.cursor) {
            return Next::Entry(sweep.kind, sweep.number, id.clone());
        }
        // A sweep that starts again comes after all other sweeps, so that frequent flushes do not hold these up.
        let Sweep { kind, again, .. } = self.sweeps.remove(0);
        let anew = |number| Sweep { kind, cursor: entries.end(), number, again: None };
        self.sweeps.extend(again.map(anew));
        Next::End
    }

    /// Notes that the entry that `next` returned has been visited.
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
