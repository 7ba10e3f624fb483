//! Which lock is looked at when, though nobody asks.

use super::outgoing::Notice;
use super::timers::Lane;
use super::waiter::{Answer, Phase};
use super::{LockId, LockRef, WaitTable};
use crate::lock::Millis;

impl<C: Copy> WaitTable<C> {
    /// Has a lock looked at at that time at the latest, 0: at once, if anybody waits for it or keeps it alive; whether somebody does.
    pub(crate) fn set_timer(&mut self, lane: Lane, at: LockRef<'_>, time: Millis) -> bool {
        let Some((id, entry)) = self.entries.get_key_mut(at) else { return false };
        self.timers.set(&mut entry.timers, lane, id, time);
        true
    }

    pub(crate) fn look_by(&mut self, at: LockRef<'_>, time: Millis) -> bool {
        self.set_timer(Lane::Look, at, time)
    }

    /// Has the sessions of a lock looked at at that time at the latest.
    pub(crate) fn renew_by(&mut self, at: LockRef<'_>, time: Millis) -> bool {
        self.set_timer(Lane::Renewal, at, time)
    }

    /// Something has been done to a lock's key: it is looked at now, if anybody waits for it or keeps it alive; whether somebody
    /// does.
    pub(crate) fn touched(&mut self, at: LockRef<'_>) -> bool {
        let number = self.sweeps.next_number();
        self.touched_by(at, number)
    }

    /// Something has been done to a lock's key, or to all keys, under that number. A grant that was kept later is not meant.
    pub(super) fn touched_by(&mut self, at: LockRef<'_>, number: u64) -> bool {
        self.change(at, |entry| {
            if entry.grants.counts().expired > 0 {
                entry.grants.change_all(|record| {
                    let earlier = record.expired.iter_mut().filter(|expired| expired.kept_at < number);
                    earlier.for_each(|expired| expired.for_good = true);
                });
            }
        });
        self.recheck_by(at, 0)
    }

    pub(super) fn cancel_timers(&mut self, at: LockRef<'_>) {
        let Some((id, entry)) = self.entries.get_key_mut(at) else { return };
        self.timers.cancel_all(&mut entry.timers, id);
    }

    /// The lock that is to be looked at first for that, if its time has come.
    pub(crate) fn take_due(&mut self, lane: Lane, now: Millis) -> Option<LockId> {
        let id = self.timers.take_due(lane, now)?;
        if let Some(entry) = self.entries.get_mut(id.to_ref()) {
            entry.timers.taken(lane);
        }
        Some(id)
    }

    /// The next lock of the waiter whose time was up first that may have been free for some time: it is still to be looked at. Each of
    /// them once, in as many turns as that takes.
    pub(crate) fn next_overdue_with_wait(&mut self, now: Millis) -> Option<LockId> {
        let request = self.timers.first_timed_out(now)?;
        let locks = self.waiters.get(&request)?.locks.all();
        let seen = self.timers.last_looks(request);
        let mut unseen = (seen..).zip(locks.iter().skip(seen)).map(|(number, lock)| (number, &lock.id));
        let next = unseen.find(|(_, id)| self.is_overdue(id, now));
        let seen = next.map_or(locks.len(), |(number, _)| number + 1);
        let id = next.map(|(_, id)| id.clone());
        self.timers.note_last_looks(request, seen);
        id
    }

    pub(super) fn is_overdue(&self, id: &LockId, now: Millis) -> bool {
        let entry = self.lock(id.to_ref());
        let is_due = || entry.timers.is_due(now) || self.has_session_over(id.to_ref());
        !entry.is_over() && (is_due() || self.sweeps.is_touched_since(id.db, 0))
    }

    /// Answers the waiter whose time was up first, or takes back what it has not claimed in time, or replicas have not confirmed. Whether
    /// it stood in its queue; none where nobody's time is up.
    pub(crate) fn time_out(&mut self, now: Millis) -> Option<bool> {
        let request = self.timers.take_timed_out(now)?;
        let phase = self.waiters.get(&request).map(|waiter| waiter.phase);
        match phase {
            Some(Phase::Queued) => _ = self.answer(request, Answer::TimedOut),
            Some(Phase::Unconfirmed(_)) | None => {
                if self.end_unconfirmed(request) {
                    self.outgoing.push_back(Notice::Waiter(request));
                }
            }
            Some(_) => _ = self.give_up(request),
        }
        Some(phase == Some(Phase::Queued))
    }

    /// A lock has been looked at, and is due as it was: see `Timers::put_off`.
    pub(crate) fn put_off(&mut self, lane: Lane, at: LockRef<'_>, now: Millis) {
        let Some((id, entry)) = self.entries.get_key_mut(at) else { return };
        self.timers.put_off(&mut entry.timers, lane, id, now);
    }

    /// When something else is to be done next; 0: now.
    pub(crate) fn next_due(&self) -> Option<Millis> {
        if self.connections.has_closed() || !self.sweeps.is_empty() {
            return Some(0);
        }
        self.timers.next_due()
    }
}
