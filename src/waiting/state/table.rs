//! The lines, by database and key.

use hashbrown::{HashMap, hash_map};

use super::line::Line;
use super::place::{At, Place};

/// A hash table, since each step on any lock asks it once. Its hash has a seed of its own: names are the clients' to choose. It
/// is made when the first line comes. The lines are boxed, since a hash table has many empty places.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone, PartialEq, Eq))]
pub(super) struct Lines(Option<HashMap<Place, Box<Line>>>);

impl Lines {
    pub(super) const fn new() -> Self {
        Self(None)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.as_ref().is_none_or(HashMap::is_empty)
    }

    pub(super) fn get(&self, at: At<'_>) -> Option<&Line> {
        self.0.as_ref()?.get(&at).map(Box::as_ref)
    }

    pub(super) fn get_mut(&mut self, at: At<'_>) -> Option<&mut Line> {
        self.0.as_mut()?.get_mut(&at).map(Box::as_mut)
    }

    /// The name of a line, shared with it.
    pub(super) fn place(&self, at: At<'_>) -> Option<Place> {
        self.0.as_ref()?.get_key_value(&at).map(|(place, _)| place.clone())
    }

    /// The line of that name, made where there is none.
    pub(super) fn open(&mut self, place: Place) -> &mut Line {
        self.0.get_or_insert_default().entry(place).or_default()
    }

    pub(super) fn remove(&mut self, at: At<'_>) -> Option<(Place, Line)> {
        self.0.as_mut()?.remove_entry(&at).map(|(place, line)| (place, *line))
    }

    pub(super) fn retain(&mut self, mut keep: impl FnMut(&mut Line) -> bool) {
        if let Some(lines) = &mut self.0 {
            lines.retain(|_, line| keep(line));
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&Place, &Line)> {
        self.0.iter().flat_map(hash_map::HashMap::iter).map(|(place, line)| (place, line.as_ref()))
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &Line> {
        self.iter().map(|(_, line)| line)
    }
}

#[cfg(test)]
impl Lines {
    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = &mut Line> {
        self.0.iter_mut().flat_map(hash_map::HashMap::values_mut).map(Box::as_mut)
    }
}
