//! Indexes: each index has rows in the order of a key that is computed from the row. A row without this key is not in the index.
//!
//! No code adds rows to an index or removes them directly. Instead, each kind of row has one function that changes the fields from which
//! keys are computed. This function computes the keys of the row before and after the change, and the difference is written to the indexes.
//! (Code that adds or removes a whole row writes the difference, too.)
//!
//! | row | its keys | the function | what writes the difference |
//! |---|---|---|---|
//! | `Waiter` | `WaiterKeys` | `Waits::change` | `Indexes::write` in `waiters` |
//! | `GrantRecord` | `SessionKeys` | `Sessions::change` | `Sessions::write` |
//! | `LockTimers` | all of it | `Timers::change` | `Lanes::write` |
//! | `Pending` | `target()` | `Replication::write` | the same |
//! | `Since` of a lock | all of it | `HeldSince::note` | the same |
//!
//! A new index of waiters needs a key in `WaiterKeys`, a field in `Waiters` and in `Indexes`, a line in `Indexes::write`, and a line in
//! `check`, which computes all indexes anew and compares them. The type of the key must be `Copy`. So if rows are to be found by a name,
//! the key is a hash of the name.

use std::collections::BTreeSet;
use std::collections::btree_set::Range;
use std::ops::RangeBounds;

use super::queue::RequestId;

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

    pub(super) fn iter(&self) -> impl Iterator<Item = &(K, Id)> {
        self.0.iter()
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Gives all rows other keys and numbers.
    #[cfg(test)]
    pub(super) fn renumber(&mut self, change: impl Fn(K, Id) -> (K, Id)) {
        self.0 = std::mem::take(&mut self.0).into_iter().map(|(key, id)| change(key, id)).collect();
    }
}

impl<K: Copy + Ord> Index<K, RequestId> {
    /// Returns the requests with this key, in order of arrival.
    pub(super) fn of(&self, key: K) -> impl DoubleEndedIterator<Item = RequestId> {
        self.range((key, RequestId::MIN)..=(key, RequestId::MAX)).map(|(_, request)| *request)
    }
}
