//! The names of locks.

use std::hash::{Hash, Hasher};
use std::sync::{Arc, LazyLock};

use foldhash::fast::RandomState;
use indexmap::Equivalent;

/// The hash of names. It has a random seed, since clients choose the names.
pub(super) static HASHES: LazyLock<RandomState> = LazyLock::new(RandomState::default);

/// A lock, by database and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LockId {
    pub(crate) db: i32,
    pub(crate) key: Arc<[u8]>,
}

impl LockId {
    /// Comes before all names.
    pub(super) fn first() -> Self {
        Self { db: i32::MIN, key: Arc::default() }
    }

    pub(crate) fn to_ref(&self) -> LockRef<'_> {
        LockRef { db: self.db, key: &self.key }
    }

    pub(super) fn is(&self, at: LockRef<'_>) -> bool {
        at.equivalent(self)
    }
}

/// A lock, by database and borrowed name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LockRef<'a> {
    pub(crate) db: i32,
    pub(crate) key: &'a [u8],
}

impl LockRef<'_> {
    pub(crate) fn to_id(self) -> LockId {
        LockId { db: self.db, key: self.key.into() }
    }

    /// The number that the lock counts for in limits on connections and pages. A long name counts once more for each kB, since names are
    /// copied and may have any length.
    pub(crate) fn weight(self) -> usize {
        1 + self.key.len() / 1024
    }
}

/// `LockId` and `LockRef` have the same hash, of the name alone, since each step on a lock computes it. Few names are used in several
/// databases.
impl Hash for LockId {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.to_ref().hash(hasher);
    }
}

impl Hash for LockRef<'_> {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        hasher.write(self.key);
    }
}

impl Equivalent<LockId> for LockRef<'_> {
    fn equivalent(&self, id: &LockId) -> bool {
        self.db == id.db && *self.key == *id.key
    }
}
