//! Which lock.

use std::sync::Arc;

/// A lock, by database and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(test, derive(Hash))]
pub(crate) struct Place {
    pub(crate) db: i32,
    pub(crate) key: Arc<[u8]>,
}

impl Place {
    pub(crate) fn at(&self) -> At<'_> {
        At { db: self.db, key: &self.key }
    }
}

/// The same, borrowed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct At<'a> {
    pub(crate) db: i32,
    pub(crate) key: &'a [u8],
}
