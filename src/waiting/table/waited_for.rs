//! Since when the locks are held that somebody waits for: see `held`.

use super::held_since::Since;
use super::{LockId, LockRef, WaitTable};
use crate::lock::Millis;

impl<C: Copy> WaitTable<C> {
    /// A lock is held, by its oldest grant, since then; a free one from now on at the earliest. Noted if somebody waits for it.
    /// Whether somebody is to hear of a lapse, as `is_watched`.
    pub(crate) fn note_held(&mut self, at: LockRef<'_>, since: Millis) -> bool {
        let Some((id, entry, held)) = self.entries.get_held_mut(at) else { return false };
        let since = Since::new(since.max(1));
        if !entry.queue.is_empty() && (held.is_none() || since < *held) {
            self.observers.held.note(held, since, id);
        }
        entry.is_watched()
    }

    /// The lock that may have been held longest, and since when at the earliest.
    pub(crate) fn longest_held(&self) -> Option<(Millis, LockId)> {
        self.observers.held.first().map(|(since, id)| (since.get(), id.clone()))
    }

    /// It has been held since then only.
    pub(crate) fn held_since(&mut self, id: &LockId, since: Millis) {
        if let Some((id, _, held)) = self.entries.get_held_mut(id.to_ref()) {
            self.observers.held.note(held, Since::new(since.max(1)), id);
        }
    }

    /// Nobody waits for a lock any more.
    pub(super) fn forget_held(&mut self, id: &LockId) {
        if let Some((id, _, held)) = self.entries.get_held_mut(id.to_ref()) {
            self.observers.held.note(held, None, id);
        }
    }
}
