//! All that the module knows of each lock, and when a timer has to settle the lock (bring it up to date). This file knows nothing of
//! connections, and of a waiter only its number and owner.

use super::entry::{LockEntry, Unsettled};
use super::grant_record::Expired;
use super::held_since::{HeldSince, Since};
use super::lock_id::{LockId, LockRef};
use super::lock_table::LockTable;
use super::pending::PendingHold;
use super::queue::RequestId;
use super::sweep::{Kind, Next, Sweeps};
use super::timers::{Lane, Timers};
use crate::lock::{Fence, Grant, Millis, Owner};

#[derive(Debug)]
#[cfg_attr(test, derive(Clone, PartialEq, Eq))]
pub struct Locks {
    /// The entries of locks. An entry with nothing left is dropped, so a lock about which nothing needs to be known costs only one look-up.
    pub(super) entries: LockTable,
    pub(crate) timers: Timers,
    /// The walks through all entries that have begun and have not ended.
    pub(super) sweeps: Sweeps,
    /// Since when each lock with waiters has been held. Only operators are shown this, and no decision depends on it.
    pub(super) held: HeldSince,
}

impl Locks {
    pub(super) const fn new() -> Self {
        Self {
            entries: LockTable::new(),
            timers: Timers::new(),
            sweeps: Sweeps::new(),
            held: HeldSince::new(),
        }
    }

    /// Whether no lock has an entry: nobody waits for a lock, and the table knows nothing more of any grant than its key says. On many
    /// servers, this is so most of the time.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Whether this lock has no entry: see `LockAccess::idle`.
    pub fn is_idle(&self, at: LockRef<'_>) -> bool {
        self.entries.lacks(at)
    }

    /// Returns the entry of a lock, or an empty entry if the lock has none.
    pub fn lock(&self, at: LockRef<'_>) -> &LockEntry {
        static NOTHING: LockEntry = LockEntry::new();
        self.entries.get(at).unwrap_or(&NOTHING)
    }

    /// Changes the entry of a lock, if there is one, and drops the entry if nothing is left in it.
    pub(crate) fn change<R>(&mut self, at: LockRef<'_>, body: impl FnOnce(&mut LockEntry) -> R) -> Option<R> {
        let entry = self.entries.get_mut(at)?;
        let result = body(entry);
        if entry.is_over() {
            self.cancel_timers(at);
            self.entries.remove(at);
        }
        Some(result)
    }

    /// Returns the name of a lock, and its entry. Makes the entry if there is none.
    pub(super) fn open(&mut self, at: LockRef<'_>) -> (LockId, &mut LockEntry) {
        let id = self.id(at);
        (id.clone(), self.entries.open(id))
    }

    /// Returns the name of a lock. If the lock has an entry, this is another reference to the entry's name, and not a copy.
    pub(super) fn id(&self, at: LockRef<'_>) -> LockId {
        self.entries.id(at).unwrap_or_else(|| at.to_id())
    }

    /// Takes a waiter out of the queue of a lock. If the waiter was granted the lock, `granted` is the fence, and `hold` becomes a pending
    /// hold. Otherwise, returns the new first waiter, if the waiter that left was first.
    pub(super) fn leave(
        &mut self,
        at: LockRef<'_>,
        owner: &Owner<'static>,
        hold: PendingHold,
        granted: Option<Fence>,
    ) -> Option<RequestId> {
        let entry = self.entries.get_held_mut(at);
        debug_assert!(entry.is_some(), "{hold:?} is in the queue of {at:?}");
        let (id, entry, held) = entry?;
        let was_first = entry.head() == Some(hold.request);
        entry.leave(hold.request, owner);
        if entry.queue.is_empty() {
            self.held.note(held, None, id);
        }
        if let Some(fence) = granted {
            entry.add_pending(fence, hold);
            return None;
        }
        let next = entry.head().filter(|_| was_first);
        // When a holder's own waiters re-enter, the module passes over at most two of them that can't have the lock yet, and does not try
        // the waiters behind these two. The waiter that left may have been one of the two, so a timer tries the holder's waiters again.
        if entry.queue.next_of(owner, Some(hold.request)).is_some() {
            self.recheck_by(at, 0);
        } else if entry.is_over() {
            self.cancel_timers(at);
            self.entries.remove(at);
        }
        next
    }

    /// Returns the parts of a lock that have to be settled (brought up to date). Cancels the lock's timers that are due, because the caller
    /// has to settle the lock now.
    pub(crate) fn take_up(&mut self, at: LockRef<'_>, now: Millis) -> Unsettled {
        let Some((id, entry)) = self.entries.get_key_mut(at) else { return Unsettled::default() };
        let renewal = entry.timers.is_renewal_due(now);
        self.timers.cancel_due(&mut entry.timers, id, now);
        entry.take_up(renewal)
    }

    /// Sets a timer, for `time` at the latest, that compares all that the module knows of a lock with the lock's key. Returns whether the
    /// lock has an entry.
    pub fn recheck_by(&mut self, at: LockRef<'_>, time: Millis) -> bool {
        let Some((id, entry)) = self.entries.get_key_mut(at) else { return false };
        entry.recheck = true;
        self.timers.set(&mut entry.timers, Lane::Look, id, time);
        true
    }

    /// Sets a timer of a lock for `time` (in ms since 1970) at the latest; 0: at once. If the lock has no entry, sets no timer and returns
    /// `false`.
    pub(crate) fn set_timer(&mut self, lane: Lane, at: LockRef<'_>, time: Millis) -> bool {
        let Some((id, entry)) = self.entries.get_key_mut(at) else { return false };
        self.timers.set(&mut entry.timers, lane, id, time);
        true
    }

    pub(crate) fn look_by(&mut self, at: LockRef<'_>, time: Millis) -> bool {
        self.set_timer(Lane::Look, at, time)
    }

    /// Sets a timer, for `time` at the latest, that looks at the sessions of a lock. Returns whether the lock has an entry.
    pub(crate) fn renew_by(&mut self, at: LockRef<'_>, time: Millis) -> bool {
        self.set_timer(Lane::Renewal, at, time)
    }

    /// Sets a timer that looks at the sessions of a lock when the first of them has to renew its lease.
    pub(crate) fn renew_next(&mut self, at: LockRef<'_>) {
        if let Some(first) = self.lock(at).grants.next_renewal() {
            self.renew_by(at, first);
        }
    }

    pub(super) fn cancel_timers(&mut self, at: LockRef<'_>) {
        let Some((id, entry)) = self.entries.get_key_mut(at) else { return };
        self.timers.cancel_all(&mut entry.timers, id);
    }

    /// Returns the lock whose timer in this lane was due first, if its time has come, and clears this timer.
    pub(crate) fn take_due(&mut self, lane: Lane, now: Millis) -> Option<LockId> {
        let (id, entry) = self.entries.get_key_mut(self.timers.first_due(lane, now)?.to_ref())?;
        self.timers.taken(&mut entry.timers, lane, id);
        Some(id.clone())
    }

    /// If the timer of a lock in this lane is still due after the lock has been brought up to date, moves the timer to the next
    /// millisecond: see `Timers::put_off`.
    pub(crate) fn put_off(&mut self, lane: Lane, at: LockRef<'_>, now: Millis) {
        let Some((id, entry)) = self.entries.get_key_mut(at) else { return };
        self.timers.put_off(&mut entry.timers, lane, id, now);
    }

    /// Notes that a lock's key was changed, and sets a timer that brings the lock up to date at once. Returns whether the lock has an
    /// entry.
    pub(crate) fn touched(&mut self, at: LockRef<'_>) -> bool {
        let number = self.sweeps.next_number();
        self.touched_by(at, number)
    }

    /// Notes the change with this number to the key of a lock, and sets a timer that brings the lock up to date at once. Grants that
    /// `keep_expired` kept before this change will not be restored. Returns whether the lock has an entry.
    fn touched_by(&mut self, at: LockRef<'_>, number: u64) -> bool {
        self.change(at, |entry| entry.grants.touched_by(number));
        self.recheck_by(at, 0)
    }

    /// Has so many holds of a grant taken back, if the grant is found at this key.
    pub(super) fn take_back(&mut self, at: LockRef<'_>, fence: Fence, holds: u32) {
        self.open(at).1.grants.open(fence, |record| record.undeliverable += holds);
        self.recheck_by(at, 0);
    }

    /// Starts a walk that sets timers to bring all locks of a database up to date, because something has happened to all its keys. `None`
    /// stands for all databases.
    pub fn touched_db(&mut self, db: Option<i32>) {
        self.sweeps.start(Kind::Touched(db), self.entries.end());
    }

    /// Starts a walk that sets timers to bring all locks up to date, because a setting has changed: waiters that did not fit before may fit
    /// now.
    pub fn rules_changed(&mut self) {
        self.sweeps.start(Kind::Rules, self.entries.end());
    }

    /// Does the work of a walk on one more entry. Returns whether there was anything to do.
    pub(super) fn sweep(&mut self) -> bool {
        let (kind, number, id) = match self.sweeps.next(&self.entries) {
            Next::Nothing => return false,
            Next::End => return true,
            Next::Entry(kind, number, id) => (kind, number, id),
        };
        if kind == Kind::Rules {
            self.recheck_by(id.to_ref(), 0);
        } else if kind.touches(id.db) {
            self.touched_by(id.to_ref(), number);
        }
        self.sweeps.advance();
        true
    }

    /// Keeps a grant whose lease ended while this server was frozen. A timer, or the next command on the lock, can then restore the grant.
    pub(crate) fn keep_expired(&mut self, at: LockRef<'_>, grant: Grant) {
        let (kept_at, fence) = (self.sweeps.last_number(), grant.fence());
        self.change(at, |entry| {
            let expired = Some(Box::new(Expired { grant, for_good: false, kept_at }));
            entry.grants.open(fence, |record| record.expired = expired);
        });
        self.look_by(at, 0);
    }

    /// Returns the grants that `keep_expired` kept, without those that must not be restored.
    pub(crate) fn kept_expired(&self, at: LockRef<'_>) -> Vec<Grant> {
        let may_be_given =
            |expired: &&Expired| !expired.for_good && !self.sweeps.is_touched_since(at.db, expired.kept_at);
        self.lock(at).grants.expired().filter(may_be_given).map(|expired| expired.grant.clone()).collect()
    }

    /// Takes the grants that `keep_expired` kept, and marks those that must not be restored (`for_good`).
    pub(crate) fn take_expired(&mut self, at: LockRef<'_>) -> Vec<Expired> {
        let mut all = self.change(at, |entry| entry.grants.take_expired()).unwrap_or_default();
        for expired in &mut all {
            expired.for_good |= self.sweeps.is_touched_since(at.db, expired.kept_at);
        }
        all
    }

    /// If somebody waits for a lock, notes since when the lock has been held, but keeps an earlier note. `since` is when the oldest grant
    /// was made, or now for a free lock, because the next grant can't be older. Returns the same as `is_watched`.
    pub(crate) fn note_held(&mut self, at: LockRef<'_>, since: Millis) -> bool {
        let Some((id, entry, held)) = self.entries.get_held_mut(at) else { return false };
        let since = Since::new(since.max(1));
        if !entry.queue.is_empty() && (held.is_none() || since < *held) {
            self.held.note(held, since, id);
        }
        entry.is_watched()
    }

    /// Returns the lock that may have been held longest, and the time in the lock's note.
    pub fn longest_held(&self) -> Option<(Millis, LockId)> {
        self.held.first().map(|(since, id)| (since.get(), id.clone()))
    }

    /// Corrects the note of a lock that has been held only since this time.
    pub(crate) fn held_since(&mut self, id: &LockId, since: Millis) {
        if let Some((id, _, held)) = self.entries.get_held_mut(id.to_ref()) {
            self.held.note(held, Since::new(since.max(1)), id);
        }
    }
}
