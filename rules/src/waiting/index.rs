//! Indexes: each index has rows in the order of a key that is computed from the row. A row without this key is not in the index.
//!
//! `Replication::write` is the only code that changes one.

use std::collections::BTreeSet;
use std::collections::btree_set::Range;
use std::ops::RangeBounds;

#[derive(Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(Clone, Hash))]
pub(super) struct Index<K, Id>(BTreeSet<(K, Id)>);

impl<K: Copy + Ord, Id: Clone + Ord> Index<K, Id> {
    pub(super) const fn new() -> Self {
        Self(BTreeSet::new())
    }

    /// Moves a row whose key has changed from `from` to `to`. Without a key (`None`), the row is not in the index.
    #[inline(always)]
    pub(super) fn set(&mut self, id: &Id, from: Option<K>, to: Option<K>) {
        if from == to {
            return;
        }
        if let Some(key) = from {
            self.0.remove(&(key, id.clone()));
        }
        if let Some(key) = to {
            self.0.insert((key, id.clone()));
        }
    }

    pub(super) fn first(&self) -> Option<&(K, Id)> {
        self.0.first()
    }

    pub(super) fn range(&self, range: impl RangeBounds<(K, Id)>) -> Range<'_, (K, Id)> {
        self.0.range(range)
    }
}
