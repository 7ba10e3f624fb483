//! The entries of all locks, by database and key.

use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, Ordering};

use foldhash::fast::RandomState;
use indexmap::map::raw_entry_v1::{RawEntryApiV1, RawEntryMut};
use indexmap::{Equivalent, IndexMap};

use super::entry::LockEntry;
use super::held_since::Since;
use super::lock_id::{HASHES, LockId, LockRef};

/// A hash table of entries, because each step on any lock looks the lock's entry up once. The table is allocated with the first entry.
///
/// The table is divided into parts, by hash, and each part grows separately. A hash table grows by copying all its entries, and one step
/// must not cost more than copying about ten thousand entries. Each entry has an index in its part, so that a walk through all entries can
/// be interrupted. The entries are boxed, so that copying them is cheap.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone))]
pub(super) struct LockTable {
    table: Option<Table>,
    len: usize,
}

#[derive(Debug)]
#[cfg_attr(test, derive(Clone))]
struct Table {
    hasher: RandomState,
    first: Part,
    /// Part 1 and the parts after it.
    others: Box<[Part]>,
    /// Where the entry is that was found last.
    last: Last,
}

/// The number of a part, and the index of an entry in that part, in one integer.
#[derive(Debug, Default)]
struct Last(AtomicU64);

impl Last {
    fn get(&self) -> (usize, usize) {
        let both = self.0.load(Ordering::Relaxed);
        ((both >> 32) as usize, both as u32 as usize)
    }

    fn set(&self, number: usize, index: usize) {
        self.0.store((number as u64) << 32 | index as u64, Ordering::Relaxed);
    }
}

#[cfg(test)]
impl Clone for Last {
    fn clone(&self) -> Self {
        Self::default()
    }
}

/// A part has no hasher of its own: the caller passes the hash.
type Part = IndexMap<LockId, Entry, ()>;

/// A model copies its table at each step, so tests have few parts.
const PARTS: usize = if cfg!(test) { 2 } else { 256 };

/// When a part becomes empty and has room for more entries than this, it frees its memory.
const KEPT: usize = 64;

#[derive(Debug, Default)]
#[cfg_attr(test, derive(Clone, PartialEq, Eq))]
struct Entry {
    entry: Box<LockEntry>,
    held: Option<Since>,
}

/// The position of a walk through all entries, from the last to the first.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(test, derive(PartialEq, Eq, Hash))]
pub(super) struct Cursor {
    part: usize,
    /// The number of entries of this part that the walk has not visited yet. They are the first entries of the part.
    left: usize,
}

impl Table {
    fn new() -> Self {
        let others = (1..PARTS).map(|_| Part::default()).collect();
        Self { hasher: HASHES.clone(), first: Part::default(), others, last: Last::default() }
    }

    #[inline(always)]
    fn part(&self, number: usize) -> &Part {
        self.others.get(number.wrapping_sub(1)).unwrap_or(&self.first)
    }

    fn part_mut(&mut self, number: usize) -> &mut Part {
        self.others.get_mut(number.wrapping_sub(1)).unwrap_or(&mut self.first)
    }

    /// Returns the hash of a name, and the number of the part for this name.
    #[inline(always)]
    fn hash(&self, at: LockRef<'_>) -> (u64, usize) {
        let hash = self.hasher.hash_one(at);
        // These bits of the hash choose the part. The hash table of the part uses other bits.
        (hash, (hash >> 40) as usize % PARTS)
    }

    /// Returns the number of an entry's part, and the entry's index there. Remembers the last result, because a step asks for the same
    /// entry many times.
    #[inline(always)]
    fn find(&self, at: LockRef<'_>) -> Option<(usize, usize)> {
        let last @ (number, index) = self.last.get();
        match self.part(number).get_index(index) {
            Some((id, _)) if at.equivalent(id) => Some(last),
            _ => self.look_up(at),
        }
    }

    #[inline(never)]
    fn look_up(&self, at: LockRef<'_>) -> Option<(usize, usize)> {
        let (hash, number) = self.hash(at);
        let index = self.part(number).raw_entry_v1().index_from_hash(hash, |id| at.equivalent(id))?;
        self.last.set(number, index);
        Some((number, index))
    }

    #[inline(always)]
    fn entry(&self, at: LockRef<'_>) -> Option<(&LockId, &Entry)> {
        let (number, index) = self.last.get();
        if let Some(found @ (id, _)) = self.part(number).get_index(index)
            && at.equivalent(id)
        {
            return Some(found);
        }
        let (number, index) = self.look_up(at)?;
        self.part(number).get_index(index)
    }

    #[inline(always)]
    fn entry_mut(&mut self, at: LockRef<'_>) -> Option<(&LockId, &mut Entry)> {
        let (number, index) = self.find(at)?;
        self.part_mut(number).get_index_mut(index)
    }
}

impl LockTable {
    pub(super) const fn new() -> Self {
        Self { table: None, len: 0 }
    }

    #[cfg(debug_assertions)]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(super) fn get(&self, at: LockRef<'_>) -> Option<&LockEntry> {
        self.table.as_ref()?.entry(at).map(|(_, entry)| entry.entry.as_ref())
    }

    /// Whether this lock has no entry. Most locks have none.
    #[inline(always)]
    pub(super) fn lacks(&self, at: LockRef<'_>) -> bool {
        self.table.as_ref().is_none_or(|table| table.look_up(at).is_none())
    }

    pub(super) fn get_mut(&mut self, at: LockRef<'_>) -> Option<&mut LockEntry> {
        self.get_key_mut(at).map(|(_, entry)| entry)
    }

    /// Returns an entry, with its name as the table has it.
    pub(super) fn get_key_mut(&mut self, at: LockRef<'_>) -> Option<(&LockId, &mut LockEntry)> {
        self.table.as_mut()?.entry_mut(at).map(|(id, entry)| (id, entry.entry.as_mut()))
    }

    /// Returns the name of an entry, the entry, and the lock's note in `HeldSince` (since when it has been held).
    pub(super) fn get_held_mut(
        &mut self,
        at: LockRef<'_>,
    ) -> Option<(&LockId, &mut LockEntry, &mut Option<Since>)> {
        let (id, Entry { entry, held }) = self.table.as_mut()?.entry_mut(at)?;
        Some((id, entry, held))
    }

    /// Returns the name of an entry. This is another reference to the name in the table, not a copy.
    pub(super) fn id(&self, at: LockRef<'_>) -> Option<LockId> {
        self.table.as_ref()?.entry(at).map(|(id, _)| id.clone())
    }

    /// Returns the position after the last entry, where a walk begins.
    pub(super) fn end(&self) -> Cursor {
        Cursor { part: PARTS - 1, left: usize::MAX }
    }

    /// Returns the name of the entry before the cursor, which the walk visits next. A walk visits all entries that were there when it
    /// began. If an entry is removed, the last entry of its part moves to the free index, and the walk either has visited the moved entry
    /// or still comes to it.
    pub(super) fn before(&self, cursor: &mut Cursor) -> Option<&LockId> {
        let table = self.table.as_ref()?;
        loop {
            let part = table.part(cursor.part);
            cursor.left = cursor.left.min(part.len());
            if let Some(index) = cursor.left.checked_sub(1) {
                return part.get_index(index).map(|(id, _)| id);
            }
            cursor.part = cursor.part.checked_sub(1)?;
            cursor.left = usize::MAX;
        }
    }

    /// Returns the entry of this name. Makes the entry if there is none.
    pub(super) fn open(&mut self, id: LockId) -> &mut LockEntry {
        let table = self.table.get_or_insert_with(Table::new);
        let (hash, number) = table.hash(id.to_ref());
        let entry = table.part_mut(number).raw_entry_mut_v1().from_hash(hash, |known| *known == id);
        if let RawEntryMut::Vacant(_) = entry {
            self.len += 1;
        }
        match entry {
            RawEntryMut::Occupied(entry) => &mut entry.into_mut().entry,
            RawEntryMut::Vacant(entry) => {
                &mut entry.insert_hashed_nocheck(hash, id, Entry::default()).1.entry
            }
        }
    }

    pub(super) fn remove(&mut self, at: LockRef<'_>) {
        if let Some(table) = &mut self.table
            && let Some((number, index)) = table.find(at)
        {
            let part = table.part_mut(number);
            part.swap_remove_index(index);
            if part.is_empty() && part.capacity() > KEPT {
                *part = Part::default();
            }
            self.len -= 1;
        }
    }
}

impl Cursor {
    /// Moves the cursor past the entry that the walk has just visited.
    pub(super) fn advance(&mut self) {
        self.left = self.left.saturating_sub(1);
    }
}

#[cfg(any(test, debug_assertions))]
impl LockTable {
    fn entries(&self) -> impl Iterator<Item = (&LockId, &Entry)> {
        self.table.iter().flat_map(|table| std::iter::once(&table.first).chain(&table.others).flatten())
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&LockId, &LockEntry)> {
        self.entries().map(|(id, entry)| (id, entry.entry.as_ref()))
    }

    /// Returns all notes in `HeldSince`, with the names of their locks.
    pub(super) fn held(&self) -> impl Iterator<Item = (Since, &LockId)> {
        self.entries().filter_map(|(id, entry)| Some((entry.held?, id)))
    }
}

#[cfg(test)]
impl LockTable {
    fn entries_mut(&mut self) -> impl Iterator<Item = &mut Entry> {
        let tables = self.table.iter_mut();
        let parts = tables.flat_map(|table| std::iter::once(&mut table.first).chain(&mut table.others));
        parts.flat_map(IndexMap::values_mut)
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &LockEntry> {
        self.iter().map(|(_, entry)| entry)
    }

    pub(super) fn forget_held(&mut self) {
        self.entries_mut().for_each(|entry| entry.held = None);
    }

    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = &mut LockEntry> {
        self.entries_mut().map(|entry| entry.entry.as_mut())
    }
}

/// Tables are equal if they have the same entries, in any order.
#[cfg(test)]
impl PartialEq for LockTable {
    fn eq(&self, other: &Self) -> bool {
        let sorted = |entries: &Self| -> std::collections::BTreeMap<LockId, Entry> {
            entries.entries().map(|(id, entry)| (id.clone(), entry.clone())).collect()
        };
        sorted(self) == sorted(other)
    }
}

#[cfg(test)]
impl Eq for LockTable {}

#[cfg(test)]
mod tests {
    use super::*;

    /// When all entries are removed, one after the other, parts that had many entries free their memory.
    #[test]
    fn a_table_gives_the_memory_of_many_entries_back() {
        for (count, is_kept) in [(8, true), (1_000, false)] {
            let mut table = LockTable::new();
            let ids: Vec<LockId> = (0..count).map(|number: i32| at(&number.to_le_bytes()).to_id()).collect();
            ids.iter().for_each(|id| _ = table.open(id.clone()));
            assert_eq!((table.is_empty(), table.len()), (false, ids.len()));
            ids.iter().for_each(|id| table.remove(id.to_ref()));
            assert!(table.is_empty() && ids.iter().all(|id| table.lacks(id.to_ref())));
            let parts = table.table.unwrap();
            let keeps = |part: &Part| part.capacity() > 0;
            assert_eq!(keeps(&parts.first) || keeps(&parts.others[0]), is_kept);
        }
    }

    fn at(key: &[u8]) -> LockRef<'_> {
        LockRef { db: 0, key }
    }
}
