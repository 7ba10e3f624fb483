//! Locks by name: the hash table for what is known of each.

use std::hash::BuildHasher as _;

use foldhash::fast::RandomState;
use indexmap::map::raw_entry_v1::{RawEntryApiV1 as _, RawEntryMut};
use indexmap::{Equivalent as _, IndexMap};

use super::lock_id::{HASHES, LockId, LockRef};

/// A hash table in parts. A hash table grows by copying all that it has, and a command must not wait until a million locks are copied.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone))]
pub(super) struct Locks<V> {
    hasher: RandomState,
    parts: Box<[Part<V>]>,
    len: usize,
    /// The position of the lock that was used last, because a step uses its lock several times.
    last: usize,
}

/// The hash comes from outside, because it also chooses the part.
type Part<V> = IndexMap<LockId, Box<V>, ()>;

/// The number of parts: a power of two. The tests' models copy the table at each step, so they have one part.
const PARTS: usize = if cfg!(test) { 1 } else { 256 };
/// A part without locks that has room for more than this gives its memory back.
const KEPT: usize = 64;
/// A position has an index in these bits, and the number of the part in those above.
const INDEX: u32 = 32;
const REST: usize = (1 << INDEX) - 1;

impl<V> Default for Locks<V> {
    fn default() -> Self {
        Self::new(PARTS)
    }
}

impl<V> Locks<V> {
    fn new(parts: usize) -> Self {
        Self { hasher: HASHES.clone(), parts: (0..parts).map(|_| Part::default()).collect(), len: 0, last: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    fn find(&self, at: LockRef<'_>) -> (usize, u64) {
        let hash = self.hasher.hash_one(at);
        ((hash >> 40) as usize & (self.parts.len() - 1), hash)
    }

    #[inline]
    fn search(&self, at: LockRef<'_>) -> Option<usize> {
        let (number, hash) = self.find(at);
        let index = self.parts.get(number)?.raw_entry_v1().index_from_hash(hash, |id| at.equivalent(id))?;
        Some(number << INDEX | index)
    }

    /// Whether the table has a lock. Searches at once, without a look at `last`, because the lock is usually not in the table.
    #[inline]
    pub(super) fn has(&self, at: LockRef<'_>) -> bool {
        self.len > 0 && self.search(at).is_some()
    }

    /// The position of a lock, which is valid until a lock is removed.
    pub(super) fn position(&self, at: LockRef<'_>) -> Option<usize> {
        let last = self.parts.get(self.last >> INDEX)?.get_index(self.last & REST);
        if last.is_some_and(|(id, _)| id.is(at)) {
            return Some(self.last);
        }
        self.search(at)
    }

    #[inline]
    pub(super) fn at_mut(&mut self, position: usize) -> Option<(&LockId, &mut V)> {
        self.last = position;
        let (id, lock) = self.parts.get_mut(position >> INDEX)?.get_index_mut(position & REST)?;
        Some((id, lock))
    }

    #[inline]
    pub(super) fn get(&self, at: LockRef<'_>) -> Option<(&LockId, &V)> {
        let position = self.position(at)?;
        let (id, lock) = self.parts.get(position >> INDEX)?.get_index(position & REST)?;
        Some((id, lock))
    }

    #[inline]
    pub(super) fn get_mut(&mut self, at: LockRef<'_>) -> Option<(&LockId, &mut V)> {
        self.at_mut(self.position(at)?)
    }

    /// Adds a lock that is not in the table. Returns its position.
    pub(super) fn insert(&mut self, id: LockId, lock: Box<V>) -> usize {
        let (number, hash) = self.find(id.to_ref());
        let Some(part) = self.parts.get_mut(number) else { return 0 };
        let index = part.len();
        if let RawEntryMut::Vacant(entry) = part.raw_entry_mut_v1().from_hash(hash, |known| *known == id) {
            entry.insert_hashed_nocheck(hash, id, lock);
            self.len += 1;
        }
        number << INDEX | index
    }

    pub(super) fn remove(&mut self, position: usize) {
        let Some(part) = self.parts.get_mut(position >> INDEX) else { return };
        self.len -= usize::from(part.swap_remove_index(position & REST).is_some());
        if part.is_empty() && part.capacity() > KEPT {
            *part = Part::default();
        }
    }

    pub(super) fn pop(&mut self) -> Option<(LockId, Box<V>)> {
        let last = self.parts.iter_mut().rev().find_map(IndexMap::pop)?;
        self.len -= 1;
        Some(last)
    }

    /// Where a walk through all locks begins.
    pub(super) fn end(&self) -> usize {
        let last = self.parts.len() - 1;
        last << INDEX | self.parts.last().map_or(0, IndexMap::len)
    }

    /// Returns the lock before this position, and that lock's own position. If a lock is removed, the last lock of its part moves to its
    /// position: a walk has already visited the moved lock, or still comes to it.
    pub(super) fn before(&self, position: usize) -> Option<(usize, &LockId)> {
        let (mut number, mut left) = (position >> INDEX, position & REST);
        loop {
            let part = self.parts.get(number)?;
            if let Some(index) = left.min(part.len()).checked_sub(1) {
                return Some((number << INDEX | index, part.get_index(index)?.0));
            }
            (number, left) = (number.checked_sub(1)?, REST);
        }
    }
}

#[cfg(any(test, debug_assertions))]
impl<V> Locks<V> {
    pub(super) fn iter(&self) -> impl Iterator<Item = (&LockId, &Box<V>)> {
        self.parts.iter().flatten()
    }
}

#[cfg(test)]
impl<V> Locks<V> {
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (&LockId, &mut Box<V>)> {
        self.parts.iter_mut().flatten()
    }
}

#[cfg(test)]
impl<V: PartialEq> PartialEq for Locks<V> {
    fn eq(&self, other: &Self) -> bool {
        self.len == other.len && self.iter().all(|(id, lock)| other.get(id.to_ref()) == Some((id, lock)))
    }
}

#[cfg(test)]
impl<V: Eq> Eq for Locks<V> {}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn id(number: usize) -> LockId {
        LockRef { db: 0, key: &number.to_le_bytes() }.to_id()
    }

    fn remove(locks: &mut Locks<()>, number: usize) {
        locks.position(id(number).to_ref()).into_iter().for_each(|position| locks.remove(position));
    }

    fn filled(parts: usize, count: usize) -> Locks<()> {
        let mut locks = Locks::new(parts);
        for number in 0..count {
            locks.insert(id(number), Box::new(()));
        }
        locks
    }

    #[test]
    fn no_part_grows_by_copying_many_locks_and_an_empty_one_gives_its_memory_back() {
        let mut locks = filled(256, 100_000);
        assert!(locks.parts.iter().all(|part| part.len() < 1_000));
        assert!((0..100_000).all(|number| locks.get_mut(id(number).to_ref()).is_some()));
        (0..100_000).for_each(|number| remove(&mut locks, number));
        assert!(locks.len() == 0 && locks.parts.iter().all(|part| part.capacity() <= KEPT));
    }

    /// Locks go and come meanwhile.
    #[test]
    fn a_walk_visits_all_locks_that_stay() {
        for parts in [1, 4] {
            let mut locks = filled(parts, 100);
            let (mut position, mut seen) = (locks.end(), BTreeSet::new());
            for step in 0..1_000 {
                let Some((next, id_of)) = locks.before(position) else { break };
                seen.insert(id_of.clone());
                position = next;
                remove(&mut locks, step * 3);
                locks.insert(id(1_000 + step), Box::new(()));
            }
            assert!((0..100).filter(|number| number % 3 > 0).all(|number| seen.contains(&id(number))));
        }
    }

    #[test]
    fn the_locks_go_one_by_one() {
        let mut locks = filled(4, 50);
        let all: BTreeSet<_> = std::iter::from_fn(|| locks.pop()).map(|(id, _)| id).collect();
        assert_eq!((all.len(), locks.len()), (50, 0));
    }
}
