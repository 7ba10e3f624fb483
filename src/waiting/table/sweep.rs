//! Something that is being done to all locks of a database, or of all.

use super::lock_table::Cursor;

/// What a sweep is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(Hash))]
pub(super) enum Kind {
    /// Something has happened to the keys of that database, or to all.
    Touched(Option<i32>),
    /// A setting that holds for all locks has changed.
    Rules,
    /// This server has become a replica.
    Demoted,
}

/// A way through all entries.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone, PartialEq, Eq, Hash))]
pub(super) struct Sweep {
    pub(super) kind: Kind,
    pub(super) cursor: Cursor,
    /// The number of what happened, or of the last such where it goes on.
    pub(super) number: u64,
    /// It has happened once more since, with that number: all entries are to be seen again.
    pub(super) again: Option<u64>,
}

impl Kind {
    /// Whether that has happened to the keys of that database.
    pub(super) fn touches(self, db: i32) -> bool {
        matches!(self, Self::Touched(which) if which.is_none_or(|which| which == db))
    }
}
