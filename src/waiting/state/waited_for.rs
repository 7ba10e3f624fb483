//! Since when the locks are held that somebody waits for: see `held`.

use super::held::Since;
use super::{At, Place, State};
use crate::lock::Millis;

impl<C: Copy> State<C> {
    /// A lock is held, by its oldest grant, since then; a free one from now on at the earliest. Noted if somebody waits for it.
    /// Whether somebody is to hear of a lapse, as `is_watched`.
    pub(crate) fn note_held(&mut self, at: At<'_>, since: Millis) -> bool {
        let Some((place, line, held)) = self.lines.get_held_mut(at) else { return false };
        let since = Since::new(since.max(1));
        if !line.queue.is_empty() && (held.is_none() || since < *held) {
            self.survey.held.note(held, since, place);
        }
        line.is_watched()
    }

    /// The lock that may have been held longest, and since when at the earliest.
    pub(crate) fn longest_held(&self) -> Option<(Millis, Place)> {
        self.survey.held.first().map(|(since, place)| (since.get(), place.clone()))
    }

    /// It has been held since then only.
    pub(crate) fn held_since(&mut self, place: &Place, since: Millis) {
        if let Some((place, _, held)) = self.lines.get_held_mut(place.at()) {
            self.survey.held.note(held, Since::new(since.max(1)), place);
        }
    }

    /// Nobody waits for a lock any more.
    pub(super) fn forget_held(&mut self, place: &Place) {
        if let Some((place, _, held)) = self.lines.get_held_mut(place.at()) {
            self.survey.held.note(held, None, place);
        }
    }
}
