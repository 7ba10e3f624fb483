//! The lines, by database and key.

use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, Ordering};

use foldhash::fast::RandomState;
use indexmap::map::raw_entry_v1::{RawEntryApiV1, RawEntryMut};
use indexmap::{Equivalent, IndexMap};

use super::held::Since;
use super::line::Line;
use super::place::{At, HASHES, Place};

/// A hash table, since each step on any lock asks it once. It is
/// made when the first line comes.
///
/// It is in parts, by hash, and each part grows by itself: a table grows by a copy of the whole, and a copy of some ten thousand
/// lines is what one step may cost. In its part each line has a number, by which a way through all of them can be gone on with. The
/// lines are boxed, since they are what is copied.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone))]
pub(super) struct Lines {
    table: Option<Table>,
    len: usize,
}

#[derive(Debug)]
#[cfg_attr(test, derive(Clone))]
struct Table {
    hasher: RandomState,
    first: Part,
    /// Part 1 and those after it.
    others: Box<[Part]>,
    /// Where the line was that was found last.
    last: Last,
}

/// The number of a part, and of a line in that.
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

/// Whoever asks brings the hash.
type Part = IndexMap<Place, Entry, ()>;

/// A model copies a table at each step: few parts there.
const PARTS: usize = if cfg!(test) { 2 } else { 256 };

/// An empty part gives its memory back where it has room for more lines than that.
const KEPT: usize = 64;

#[derive(Debug, Default)]
#[cfg_attr(test, derive(Clone, PartialEq, Eq))]
struct Entry {
    line: Box<Line>,
    held: Option<Since>,
}

/// How far a way through all lines has come, from the last to the first.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(test, derive(PartialEq, Eq, Hash))]
pub(super) struct Cursor {
    part: usize,
    /// So many lines of that part are still to be seen: the first ones.
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

    /// The hash of a name, and the number of its part.
    #[inline(always)]
    fn hash(&self, at: At<'_>) -> (u64, usize) {
        let hash = self.hasher.hash_one(at);
        // Not by the bits by which the part itself goes.
        (hash, (hash >> 40) as usize % PARTS)
    }

    /// Where a line is: the number of its part, and its own in that. A step asks for the same one again and again.
    #[inline(always)]
    fn find(&self, at: At<'_>) -> Option<(usize, usize)> {
        let last @ (number, index) = self.last.get();
        match self.part(number).get_index(index) {
            Some((place, _)) if at.equivalent(place) => Some(last),
            _ => self.look_up(at),
        }
    }

    #[inline(never)]
    fn look_up(&self, at: At<'_>) -> Option<(usize, usize)> {
        let (hash, number) = self.hash(at);
        let index = self.part(number).raw_entry_v1().index_from_hash(hash, |place| at.equivalent(place))?;
        self.last.set(number, index);
        Some((number, index))
    }

    #[inline(always)]
    fn entry(&self, at: At<'_>) -> Option<(&Place, &Entry)> {
        let (number, index) = self.last.get();
        if let Some(found @ (place, _)) = self.part(number).get_index(index)
            && at.equivalent(place)
        {
            return Some(found);
        }
        let (number, index) = self.look_up(at)?;
        self.part(number).get_index(index)
    }

    #[inline(always)]
    fn entry_mut(&mut self, at: At<'_>) -> Option<(&Place, &mut Entry)> {
        let (number, index) = self.find(at)?;
        self.part_mut(number).get_index_mut(index)
    }
}

impl Lines {
    pub(super) const fn new() -> Self {
        Self { table: None, len: 0 }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(super) fn get(&self, at: At<'_>) -> Option<&Line> {
        self.table.as_ref()?.entry(at).map(|(_, entry)| entry.line.as_ref())
    }

    /// Whether there is no such line, as is so for most locks.
    #[inline(always)]
    pub(super) fn lacks(&self, at: At<'_>) -> bool {
        self.table.as_ref().is_none_or(|table| table.look_up(at).is_none())
    }

    pub(super) fn get_mut(&mut self, at: At<'_>) -> Option<&mut Line> {
        self.get_key_mut(at).map(|(_, line)| line)
    }

    /// A line and its name, which is shared with it.
    pub(super) fn get_key_mut(&mut self, at: At<'_>) -> Option<(&Place, &mut Line)> {
        self.table.as_mut()?.entry_mut(at).map(|(place, entry)| (place, entry.line.as_mut()))
    }

    /// The name of a line, the line, and since when its lock is noted to be held.
    pub(super) fn get_held_mut(&mut self, at: At<'_>) -> Option<(&Place, &Line, &mut Option<Since>)> {
        let (place, Entry { line, held }) = self.table.as_mut()?.entry_mut(at)?;
        Some((place, line, held))
    }

    /// The name of a line, shared with it.
    pub(super) fn place(&self, at: At<'_>) -> Option<Place> {
        self.table.as_ref()?.entry(at).map(|(place, _)| place.clone())
    }

    /// Behind the last line.
    pub(super) fn end(&self) -> Cursor {
        Cursor { part: PARTS - 1, left: usize::MAX }
    }

    /// The line before that, which is seen next: of those that were there when the way began. One that is dropped makes room for the
    /// last of its part, which has been seen.
    pub(super) fn before(&self, cursor: &mut Cursor) -> Option<&Place> {
        let table = self.table.as_ref()?;
        loop {
            let part = table.part(cursor.part);
            cursor.left = cursor.left.min(part.len());
            if let Some(index) = cursor.left.checked_sub(1) {
                return part.get_index(index).map(|(place, _)| place);
            }
            cursor.part = cursor.part.checked_sub(1)?;
            cursor.left = usize::MAX;
        }
    }

    /// The line of that name, made where there is none.
    pub(super) fn open(&mut self, place: Place) -> &mut Line {
        let table = self.table.get_or_insert_with(Table::new);
        let (hash, number) = table.hash(place.at());
        let entry = table.part_mut(number).raw_entry_mut_v1().from_hash(hash, |known| *known == place);
        if let RawEntryMut::Vacant(_) = entry {
            self.len += 1;
        }
        match entry {
            RawEntryMut::Occupied(entry) => &mut entry.into_mut().line,
            RawEntryMut::Vacant(entry) => {
                &mut entry.insert_hashed_nocheck(hash, place, Entry::default()).1.line
            }
        }
    }

    pub(super) fn remove(&mut self, at: At<'_>) {
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
    /// The line that it stands before has been seen.
    pub(super) fn advance(&mut self) {
        self.left = self.left.saturating_sub(1);
    }
}

#[cfg(test)]
impl Lines {
    fn entries(&self) -> impl Iterator<Item = (&Place, &Entry)> {
        self.table.iter().flat_map(|table| std::iter::once(&table.first).chain(&table.others).flatten())
    }

    fn entries_mut(&mut self) -> impl Iterator<Item = &mut Entry> {
        let tables = self.table.iter_mut();
        let parts = tables.flat_map(|table| std::iter::once(&mut table.first).chain(&mut table.others));
        parts.flat_map(IndexMap::values_mut)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&Place, &Line)> {
        self.entries().map(|(place, entry)| (place, entry.line.as_ref()))
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &Line> {
        self.iter().map(|(_, line)| line)
    }

    pub(super) fn forget_held(&mut self) {
        self.entries_mut().for_each(|entry| entry.held = None);
    }

    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = &mut Line> {
        self.entries_mut().map(|entry| entry.line.as_mut())
    }
}

/// Each table has a seed of its own, and so an order.
#[cfg(test)]
impl PartialEq for Lines {
    fn eq(&self, other: &Self) -> bool {
        let sorted = |lines: &Self| -> std::collections::BTreeMap<Place, Entry> {
            lines.entries().map(|(place, entry)| (place.clone(), entry.clone())).collect()
        };
        sorted(self) == sorted(other)
    }
}

#[cfg(test)]
impl Eq for Lines {}
