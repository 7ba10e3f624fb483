//! The names of locks.

use std::sync::{Arc, LazyLock};

use foldhash::fast::RandomState;
use indexmap::Equivalent;

/// The hash function for names. Its seed is random, so that clients can't choose names with the same hash.
pub(crate) static HASHES: LazyLock<RandomState> = LazyLock::new(RandomState::default);

/// A lock, by database and name. It has the same hash as its `LockRef`, which so finds it in a hash table.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LockId {
    pub db: i32,
    pub key: Arc<[u8]>,
}

impl LockId {
    /// Returns an id that comes before the ids of all locks.
    pub(crate) fn first() -> Self {
        Self { db: i32::MIN, key: Arc::default() }
    }

    pub fn to_ref(&self) -> LockRef<'_> {
        LockRef { db: self.db, key: &self.key }
    }

    pub(super) fn is(&self, at: LockRef<'_>) -> bool {
        at.equivalent(self)
    }
}

/// A lock, by database and borrowed name.
#[derive(Clone, Copy, Debug, Hash)]
pub struct LockRef<'a> {
    pub db: i32,
    pub key: &'a [u8],
}

impl LockRef<'_> {
    pub fn to_id(self) -> LockId {
        LockId { db: self.db, key: self.key.into() }
    }

    /// Returns as how many locks this lock counts: in the limit on what depends on one connection, in the size of a page of `LOCK.WAITS`,
    /// and in the cost of a change. A long name counts once more for each 1,024 bytes, because names are copied and may have any length.
    pub fn weight(self) -> usize {
        1 + self.key.len() / 1024
    }
}

impl Equivalent<LockId> for LockRef<'_> {
    fn equivalent(&self, id: &LockId) -> bool {
        self.db == id.db && *self.key == *id.key
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::hash::BuildHasher;

    use super::*;

    /// Otherwise, the locks of one name in many databases would slow each other down.
    #[test]
    fn a_name_has_another_hash_in_each_database() {
        let hash = |db| HASHES.hash_one(LockRef { db, key: b"k" });
        assert_eq!(hash(1), HASHES.hash_one(LockRef { db: 1, key: b"k" }.to_id()));
        assert_eq!((0..100).map(hash).collect::<BTreeSet<_>>().len(), 100);
    }
}
