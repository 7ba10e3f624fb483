//! The lines, by database and key.

use foldhash::fast::RandomState;
use indexmap::IndexMap;

use super::held::Since;
use super::line::Line;
use super::place::{At, Place};

/// A hash table, since each step on any lock asks it once. Its hash has a seed of its own: names are the clients' to choose. It
/// is made when the first line comes. Each line has a number too, by which a way through all of them can be gone on with. The
/// lines are boxed, since a table grows by whole copies.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone, PartialEq, Eq))]
pub(super) struct Lines(Option<IndexMap<Place, Entry, RandomState>>);

#[derive(Debug, Default)]
#[cfg_attr(test, derive(Clone, PartialEq, Eq))]
struct Entry {
    line: Box<Line>,
    held: Option<Since>,
}

impl Lines {
    pub(super) const fn new() -> Self {
        Self(None)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.as_ref().is_none_or(IndexMap::is_empty)
    }

    pub(super) fn len(&self) -> usize {
        self.0.as_ref().map_or(0, IndexMap::len)
    }

    pub(super) fn get(&self, at: At<'_>) -> Option<&Line> {
        self.0.as_ref()?.get(&at).map(|entry| entry.line.as_ref())
    }

    pub(super) fn get_mut(&mut self, at: At<'_>) -> Option<&mut Line> {
        self.0.as_mut()?.get_mut(&at).map(|entry| entry.line.as_mut())
    }

    /// A line and its name, which is shared with it.
    pub(super) fn get_key_mut(&mut self, at: At<'_>) -> Option<(&Place, &mut Line)> {
        self.0.as_mut()?.get_full_mut(&at).map(|(_, place, entry)| (place, entry.line.as_mut()))
    }

    /// The name of a line, the line, and since when its lock is noted to be held.
    pub(super) fn get_held_mut(&mut self, at: At<'_>) -> Option<(&Place, &Line, &mut Option<Since>)> {
        let (_, place, Entry { line, held }) = self.0.as_mut()?.get_full_mut(&at)?;
        Some((place, line, held))
    }

    /// The name of a line, shared with it.
    pub(super) fn place(&self, at: At<'_>) -> Option<Place> {
        self.0.as_ref()?.get_key_value(&at).map(|(place, _)| place.clone())
    }

    /// The name of the line of that number. Numbers begin at 0; the last line takes the number of one that is dropped.
    pub(super) fn nth(&self, number: usize) -> Option<&Place> {
        self.0.as_ref()?.get_index(number).map(|(place, _)| place)
    }

    /// The line of that name, made where there is none.
    pub(super) fn open(&mut self, place: Place) -> &mut Line {
        &mut self.0.get_or_insert_default().entry(place).or_default().line
    }

    pub(super) fn remove(&mut self, at: At<'_>) {
        if let Some(lines) = &mut self.0 {
            lines.swap_remove(&at);
        }
    }
}

#[cfg(test)]
impl Lines {
    pub(super) fn iter(&self) -> impl Iterator<Item = (&Place, &Line)> {
        self.0.iter().flat_map(IndexMap::iter).map(|(place, entry)| (place, entry.line.as_ref()))
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &Line> {
        self.iter().map(|(_, line)| line)
    }

    pub(super) fn forget_held(&mut self) {
        self.0.iter_mut().flat_map(IndexMap::values_mut).for_each(|entry| entry.held = None);
    }

    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = &mut Line> {
        self.0.iter_mut().flat_map(IndexMap::values_mut).map(|entry| entry.line.as_mut())
    }
}
