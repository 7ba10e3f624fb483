//! An ordered map that takes little memory while it has few entries. It is a sorted array until it has more than 32 entries, and then a
//! tree until it has only 16.
//!
//! Redis stores sorted sets in a similar way: a small set is a listpack, and becomes a skip list when it grows. A tree's node has room for
//! 11 entries, but most shared locks have two or three holders.

use std::collections::BTreeMap;
#[cfg(test)]
use std::hash::{Hash, Hasher};
use std::mem;

/// The most entries of an array. Inserting or removing an entry moves at most this many entries, which takes no longer than a change of a
/// tree.
const FEW: usize = 32;

#[derive(Clone, Debug)]
pub(super) enum Map<K, V> {
    /// An array in the order of the keys, in which no key occurs twice.
    Few(Vec<(K, V)>),
    #[expect(
        clippy::box_collection,
        reason = "so that a map of few entries, as most are, is 24 bytes and not 32"
    )]
    Many(Box<BTreeMap<K, V>>),
}

impl<K, V> Map<K, V> {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Few(few) => few.len(),
            Self::Many(many) => many.len(),
        }
    }

    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = (&K, &V)> {
        let (few, many) = match self {
            Self::Few(few) => (few.as_slice(), None),
            Self::Many(many) => (&[][..], Some(many.iter())),
        };
        few.iter().map(|(key, value)| (key, value)).chain(many.into_iter().flatten())
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &V> {
        self.iter().map(|(_, value)| value)
    }

    pub(super) fn change_all(&mut self, mut change: impl FnMut(&mut V)) {
        match self {
            Self::Few(few) => few.iter_mut().for_each(|(_, value)| change(value)),
            Self::Many(many) => many.values_mut().for_each(change),
        }
    }

    /// Returns the number of bytes on the heap, without the memory that the entries own.
    pub(super) fn heap_size(&self) -> usize {
        match self {
            Self::Few(few) => few.capacity() * size_of::<(K, V)>(),
            Self::Many(many) => {
                // A `BTreeMap` does not say how many nodes it has. So this is an estimate: one node for each seven entries, and the root.
                let node = 11 * size_of::<(K, V)>() + 2 * size_of::<usize>();
                size_of::<BTreeMap<K, V>>() + node * (1 + many.len().div_ceil(7))
            }
        }
    }
}

impl<K: Ord, V> Map<K, V> {
    /// Makes an empty map with room for two entries.
    pub(super) fn for_two() -> Self {
        Self::Few(Vec::with_capacity(2))
    }

    fn of(many: BTreeMap<K, V>) -> Self {
        if many.len() > FEW {
            return Self::Many(Box::new(many));
        }
        let mut few = Vec::with_capacity(many.len());
        few.extend(many);
        Self::Few(few)
    }

    pub(super) fn get(&self, key: &K) -> Option<&V> {
        match self {
            Self::Few(few) => few.get(find(few, key).ok()?).map(|(_, value)| value),
            Self::Many(many) => many.get(key),
        }
    }

    pub(super) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        match self {
            Self::Few(few) => {
                let at = find(few, key).ok()?;
                few.get_mut(at).map(|(_, value)| value)
            }
            Self::Many(many) => many.get_mut(key),
        }
    }

    pub(super) fn first(&self) -> Option<(&K, &V)> {
        self.iter().next()
    }

    pub(super) fn last(&self) -> Option<(&K, &V)> {
        self.iter().next_back()
    }

    /// Returns the entry with this key, or else the last entry before this key.
    pub(super) fn last_up_to(&self, key: &K) -> Option<(&K, &V)> {
        match self {
            Self::Few(few) => {
                let after = find(few, key).map_or_else(|after| after, |at| at + 1);
                few.get(after.checked_sub(1)?).map(|(key, value)| (key, value))
            }
            Self::Many(many) => many.range(..=key).next_back(),
        }
    }

    /// Inserts an entry, in place of an earlier entry with the same key.
    pub(super) fn insert(&mut self, key: K, value: V) {
        match self {
            Self::Few(few) => match find(few, &key) {
                Ok(at) => {
                    if let Some(entry) = few.get_mut(at) {
                        *entry = (key, value);
                    }
                }
                Err(at) if few.len() < FEW => {
                    if few.len() == few.capacity() {
                        // By itself, the `Vec` would double its capacity.
                        few.reserve_exact((1 + few.len() / 4).min(FEW - few.len()));
                    }
                    few.insert(at, (key, value));
                }
                Err(_) => *self = Self::of(mem::take(few).into_iter().chain([(key, value)]).collect()),
            },
            Self::Many(many) => {
                many.insert(key, value);
            }
        }
    }

    pub(super) fn remove(&mut self, key: &K) -> Option<V> {
        match self {
            Self::Few(few) => {
                let (_, value) = few.remove(find(few, key).ok()?);
                // The array shrinks only if more than half of it is unused, because a removed entry often comes back, changed.
                if few.capacity() > 2 * few.len() + 1 {
                    few.shrink_to_fit();
                }
                Some(value)
            }
            Self::Many(many) => {
                let value = many.remove(key)?;
                // The limit is well below `FEW`, so that a map does not change its form each time an entry comes or goes.
                if many.len() <= FEW / 2 {
                    *self = Self::of(mem::take(&mut **many));
                }
                Some(value)
            }
        }
    }
}

/// Returns the index of the key, or, as the error, the index at which the key would be inserted.
fn find<K: Ord, V>(few: &[(K, V)], key: &K) -> Result<usize, usize> {
    few.binary_search_by(|(other, _)| other.cmp(key))
}

impl<K, V> Default for Map<K, V> {
    fn default() -> Self {
        Self::Few(Vec::new())
    }
}

impl<K: Ord, V> FromIterator<(K, V)> for Map<K, V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        Self::of(entries.into_iter().collect())
    }
}

/// Two maps are equal if they have the same entries, even if only one of them is a tree.
impl<K: PartialEq, V: PartialEq> PartialEq for Map<K, V> {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().eq(other.iter())
    }
}

impl<K: Eq, V: Eq> Eq for Map<K, V> {}

#[cfg(test)]
impl<K: Hash, V: Hash> Hash for Map<K, V> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.len().hash(state);
        self.iter().for_each(|entry| entry.hash(state));
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::counted::allocated_by;

    /// Checks that the map and the tree of the standard library agree about this key.
    fn agree(map: &mut Map<u32, u8>, tree: &mut BTreeMap<u32, u8>, key: u32) -> Result<(), TestCaseError> {
        prop_assert_eq!(map.get(&key), tree.get(&key));
        prop_assert_eq!(map.get_mut(&key), tree.get_mut(&key));
        prop_assert_eq!(map.last_up_to(&key), tree.range(..=key).next_back());
        Ok(())
    }

    proptest! {
        /// The map behaves like the tree of the standard library, also while the array becomes a tree and the tree becomes an array again.
        #[test]
        fn it_is_a_map(up_and_down in vec((any::<bool>(), vec((0..80_u32, any::<u8>()), 0..120)), 1..8)) {
            let (mut map, mut tree) = (Map::default(), BTreeMap::new());
            for (up, changes) in up_and_down {
                for (key, value) in changes {
                    if up || value.is_multiple_of(8) {
                        map.insert(key, value);
                        tree.insert(key, value);
                    } else {
                        prop_assert_eq!(map.remove(&key), tree.remove(&key));
                    }
                    if let Some(value) = map.get_mut(&(key / 2)) {
                        *value ^= 1;
                        *tree.get_mut(&(key / 2)).unwrap() ^= 1;
                    }
                    prop_assert_eq!(map.len(), tree.len());
                    prop_assert_eq!((map.first(), map.last()), (tree.first_key_value(), tree.last_key_value()));
                    agree(&mut map, &mut tree, key)?;
                }
                map.change_all(|value| *value ^= 1);
                tree.values_mut().for_each(|value| *value ^= 1);
                for key in 0..81 {
                    agree(&mut map, &mut tree, key)?;
                }
                prop_assert!(map.iter().eq(&tree) && map.values().eq(tree.values()));
                let again: Map<_, _> = tree.iter().map(|(key, value)| (*key, *value)).collect();
                prop_assert_eq!(&map, &again);
            }
        }
    }

    /// An array becomes a tree above 32 entries. The tree becomes an array again at 16.
    #[test]
    fn it_changes_its_form_rarely() {
        let mut map = Map::default();
        let mut is_array = |comes: bool, key: u32| {
            match comes {
                true => map.insert(key, ()),
                false => map.remove(&key).unwrap(),
            }
            matches!(map, Map::Few(_))
        };
        assert!((0..32).all(|key| is_array(true, key)));
        assert!(!is_array(true, 32));
        assert!((17..33).rev().all(|key| !is_array(false, key)));
        assert!(is_array(false, 16));
        assert!((16..32).all(|key| is_array(true, key)));
    }

    /// A map that shrinks gives memory back, but not at once, because a removed entry often comes back.
    #[test]
    fn an_array_has_room_for_little_more_than_it_has() {
        let mut map = Map::default();
        let room = |map: &Map<u64, u64>| map.heap_size() / size_of::<(u64, u64)>();
        for key in 0..32 {
            map.insert(key, 0);
            assert!(room(&map) as u64 <= (key + 1) + (key + 1) / 4, "{key}");
        }
        for key in (0..32).rev() {
            map.remove(&key);
            assert!(room(&map) as u64 <= 2 * key + 1, "{key}");
        }
        let mut map = Map::for_two();
        (0..2).for_each(|key| map.insert(key, 0));
        map.remove(&0);
        assert_eq!(room(&map), 2);
    }

    /// The estimate of a tree's memory is close, in whatever order the entries were inserted.
    #[test]
    fn it_tells_how_much_memory_it_takes() {
        for len in [33_u64, 40, 50, 64, 100, 1_000, 10_000] {
            for (way, stride) in [("up", 1), ("down", len - 1), ("across", 6_007)] {
                let (map, used) = allocated_by(|| {
                    let mut map = Map::default();
                    (0..len).for_each(|number| map.insert(number * stride % len, [number; 2]));
                    map
                });
                let estimate = map.heap_size();
                assert!(estimate.abs_diff(used) <= used / 3, "{len} {way}: {estimate}, not {used}");
            }
        }
    }
}
