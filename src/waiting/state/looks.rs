//! Which lock is looked at when, though nobody asks.

use super::message::Due;
use super::timers::Lane;
use super::waiter::{Answer, Phase};
use super::{At, Place, State};
use crate::lock::Millis;

impl<C: Copy> State<C> {
    /// Has a lock looked at at that time at the latest, 0: at once, if anybody waits for it or keeps it alive; whether somebody does.
    pub(crate) fn set_timer(&mut self, lane: Lane, at: At<'_>, time: Millis) -> bool {
        let Some((place, line)) = self.lines.get_key_mut(at) else { return false };
        self.timers.set(&mut line.timers, lane, place, time);
        true
    }

    pub(crate) fn look_by(&mut self, at: At<'_>, time: Millis) -> bool {
        self.set_timer(Lane::Look, at, time)
    }

    /// Has the sessions of a lock looked at at that time at the latest.
    pub(crate) fn renew_by(&mut self, at: At<'_>, time: Millis) -> bool {
        self.set_timer(Lane::Renewal, at, time)
    }

    /// Something has been done to a lock's key: it is looked at now, if anybody waits for it or keeps it alive; whether somebody
    /// does.
    pub(crate) fn touched(&mut self, at: At<'_>) -> bool {
        self.happened += 1;
        self.touched_by(at, self.happened)
    }

    /// The same, by what has that number. A grant that was kept later is not meant.
    pub(super) fn touched_by(&mut self, at: At<'_>, number: u64) -> bool {
        self.with_line(at, |line| {
            if line.grants.counts().expired > 0 {
                line.grants.change_all(|record| {
                    let earlier = record.expired.iter_mut().filter(|expired| expired.kept_at < number);
                    earlier.for_each(|expired| expired.for_good = true);
                });
            }
        });
        self.look_through(at, 0)
    }

    pub(super) fn cancel_timers(&mut self, at: At<'_>) {
        let Some((place, line)) = self.lines.get_key_mut(at) else { return };
        self.timers.cancel_all(&mut line.timers, place);
    }

    /// The lock that is to be looked at first for that, if its time has come.
    pub(crate) fn take_due(&mut self, lane: Lane, now: Millis) -> Option<Place> {
        let place = self.timers.take_due(lane, now)?;
        if let Some(line) = self.lines.get_mut(place.at()) {
            line.timers.taken(lane);
        }
        Some(place)
    }

    /// The next lock of the waiter whose time was up first that may have been free for some time: it is still to be looked at. Each of
    /// them once, in as many turns as that takes.
    pub(crate) fn next_overdue_with_wait(&mut self, now: Millis) -> Option<Place> {
        let ticket = self.timers.first_timed_out(now)?;
        let stands = self.waiters.get(&ticket)?.stands.all();
        let seen = self.timers.last_looks(ticket);
        let mut unseen = (seen..).zip(stands.iter().skip(seen)).map(|(number, stand)| (number, &stand.place));
        let next = unseen.find(|(_, place)| self.is_overdue(place, now));
        let seen = next.map_or(stands.len(), |(number, _)| number + 1);
        let place = next.map(|(_, place)| place.clone());
        self.timers.note_last_looks(ticket, seen);
        place
    }

    pub(super) fn is_overdue(&self, place: &Place, now: Millis) -> bool {
        let Some(line) = self.line(place.at()) else { return false };
        line.timers.is_due(now) || self.has_session_over(place.at()) || self.is_touched_since(place.db, 0)
    }

    /// Answers the waiter whose time was up first, or takes back what it has not claimed in time, or replicas have not confirmed. Whether
    /// it stood in its queue; none where nobody's time is up.
    pub(crate) fn time_out(&mut self, now: Millis) -> Option<bool> {
        let ticket = self.timers.take_timed_out(now)?;
        let phase = self.waiters.get(&ticket).map(|waiter| waiter.phase);
        match phase {
            Some(Phase::Queued) => _ = self.answer(ticket, Answer::TimedOut),
            Some(Phase::Unconfirmed(_)) | None => {
                if self.end_unconfirmed(ticket) {
                    self.answered.push_back(Due::Waiter(ticket));
                }
            }
            Some(_) => _ = self.give_up(ticket),
        }
        Some(phase == Some(Phase::Queued))
    }

    /// A lock has been looked at, and is due as it was: see `Timers::put_off`.
    pub(crate) fn put_off(&mut self, lane: Lane, at: At<'_>, now: Millis) {
        let Some((place, line)) = self.lines.get_key_mut(at) else { return };
        self.timers.put_off(&mut line.timers, lane, place, now);
    }

    /// When something else is to be done next; 0: now.
    pub(crate) fn next_due(&self) -> Option<Millis> {
        if self.connections.has_closed() || !self.sweeps.is_empty() {
            return Some(0);
        }
        self.timers.next_due()
    }
}
