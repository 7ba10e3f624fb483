//! Which lock to look at when.

use std::collections::BTreeSet;

use super::line::Line;
use super::message::Due;
use super::waiter::{Answer, Phase};
use super::{At, Place, State};
use crate::lock::Millis;

/// What a lock is to be looked at for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Alarm {
    /// Its session is to be renewed.
    Renewal,
    /// Anything else: at that time.
    Look,
    /// The same, at once. Those come by turns with the others, so that neither keeps the other up.
    Now,
}

/// What is due at once has a number in place of a time, first come first: below all times.
const AT_ONCE: Millis = Millis::MIN;

impl Line {
    fn alarm(&mut self, alarm: Alarm) -> &mut Option<Millis> {
        match alarm {
            Alarm::Renewal => &mut self.renewal,
            Alarm::Look | Alarm::Now => &mut self.alarm,
        }
    }
}

impl<C: Copy> State<C> {
    fn alarms(&mut self, alarm: Alarm, time: Millis) -> &mut BTreeSet<(Millis, Place)> {
        match alarm {
            Alarm::Renewal => &mut self.renewals,
            _ if time < 0 => &mut self.at_once,
            _ => &mut self.alarms,
        }
    }

    /// Has a lock looked at at that time at the latest, 0: at once, if anybody waits for it or keeps it alive; whether somebody does.
    pub(crate) fn set_alarm(&mut self, alarm: Alarm, at: At<'_>, time: Millis) -> bool {
        let Some((place, line)) = self.lines.get_key_mut(at) else { return false };
        let set = line.alarm(alarm);
        let time = match time {
            1.. => time,
            _ => {
                self.alarmed += 1;
                AT_ONCE.saturating_add(self.alarmed)
            }
        };
        if set.is_some_and(|earlier| earlier <= time) {
            return true;
        }
        let place = place.clone();
        if let Some(later) = set.replace(time) {
            self.alarms(alarm, later).remove(&(later, place.clone()));
        }
        self.alarms(alarm, time).insert((time, place));
        true
    }

    pub(crate) fn alarm_at(&mut self, at: At<'_>, time: Millis) -> bool {
        self.set_alarm(Alarm::Look, at, time)
    }

    /// Has the session of a lock looked at at that time at the latest.
    pub(crate) fn renew_by(&mut self, at: At<'_>, time: Millis) -> bool {
        self.set_alarm(Alarm::Renewal, at, time)
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

    pub(super) fn forget_alarms(&mut self, at: At<'_>) {
        let Some((place, line)) = self.lines.get_key_mut(at) else { return };
        let (alarm, renewal, place) = (line.alarm.take(), line.renewal.take(), place.clone());
        if let Some(time) = renewal {
            self.renewals.remove(&(time, place.clone()));
        }
        if let Some(time) = alarm {
            self.alarms(Alarm::Look, time).remove(&(time, place));
        }
    }

    /// The lock that is to be looked at first for that, if its time has come.
    pub(crate) fn take_due(&mut self, alarm: Alarm, now: Millis) -> Option<Place> {
        let alarms = self.alarms(alarm, if alarm == Alarm::Now { AT_ONCE } else { now });
        alarms.first().filter(|(at, _)| *at <= now)?;
        let (_, place) = alarms.pop_first()?;
        if let Some((_, line)) = self.lines.get_key_mut(place.at()) {
            *line.alarm(alarm) = None;
        }
        Some(place)
    }

    /// A lock is being looked at: its alarms that are due are over.
    pub(super) fn end_alarms(&mut self, at: At<'_>, now: Millis) {
        for alarm in [Alarm::Look, Alarm::Renewal] {
            let Some((place, line)) = self.lines.get_key_mut(at) else { return };
            if let Some(time) = line.alarm(alarm).take_if(|time| *time <= now) {
                let place = place.clone();
                self.alarms(alarm, time).remove(&(time, place));
            }
        }
    }

    /// The next lock of the waiter whose time was up first that may have been free for some time: it is still to be looked at. Each of
    /// them once, in as many turns as that takes.
    pub(crate) fn next_overdue_with_wait(&mut self, now: Millis) -> Option<Place> {
        let (_, ticket) = *self.timeouts.first().filter(|(at, _)| *at <= now)?;
        let stands = self.waiters.get(&ticket)?.stands.all();
        let seen = self.timing_out.filter(|(last, _)| *last == ticket).map_or(0, |(_, seen)| seen);
        let mut unseen = (seen..).zip(stands.iter().skip(seen)).map(|(number, stand)| (number, &stand.place));
        let next = unseen.find(|(_, place)| self.is_overdue(place, now));
        let seen = next.map_or(stands.len(), |(number, _)| number + 1);
        let place = next.map(|(_, place)| place.clone());
        self.timing_out = Some((ticket, seen));
        place
    }

    pub(super) fn is_overdue(&self, place: &Place, now: Millis) -> bool {
        let Some(line) = self.line(place.at()) else { return false };
        let is_due = [line.alarm, line.renewal].into_iter().flatten().any(|at| at <= now);
        is_due || self.has_session_over(place.at()) || self.is_touched_since(place.db, 0)
    }

    /// Answers the waiter whose time was up first, or takes back what it has not claimed in time, or replicas have not confirmed. Whether it stood in its queue;
    /// none where nobody's time is up.
    pub(crate) fn time_out(&mut self, now: Millis) -> Option<bool> {
        let first = *self.timeouts.first().filter(|(at, _)| *at <= now)?;
        let (_, ticket) = first;
        self.timing_out = None;
        let phase = self.waiters.get(&ticket).map(|waiter| waiter.phase);
        match phase {
            Some(Phase::Queued) => _ = self.answer(ticket, Answer::TimedOut),
            Some(Phase::Unconfirmed(_)) | None => {
                if self.end_unconfirmed(ticket) {
                    self.answered.push_back(Due::Waiter(ticket));
                }
                self.timeouts.remove(&first);
            }
            Some(_) => _ = self.give_up(ticket),
        }
        Some(phase == Some(Phase::Queued))
    }

    /// A lock has been looked at, and is due as it was: not again in this millisecond. A server that does not let keys expire
    /// would have it due for ever. (What asks to be gone on with is due at once.)
    pub(crate) fn put_off(&mut self, alarm: Alarm, at: At<'_>, now: Millis) {
        let Some((place, line)) = self.lines.get_key_mut(at) else { return };
        let set = line.alarm(alarm);
        let Some(time) = set.filter(|time| (1..=now).contains(time)) else { return };
        *set = Some(now.saturating_add(1));
        let place = place.clone();
        self.alarms(alarm, time).remove(&(time, place.clone()));
        self.alarms(alarm, now).insert((now.saturating_add(1), place));
    }

    /// A turn has come to its end.
    pub(crate) fn rang(&mut self, now: Millis) {
        let left = self.renewals.first().map_or(now, |(at, _)| at.saturating_sub(1));
        self.rang_at = left.min(now);
    }

    /// With which kind of work a turn begins.
    pub(crate) fn next_kind(&self) -> u8 {
        self.next_kind
    }

    /// The next turn begins with that kind of work.
    pub(crate) fn go_on_with(&mut self, kind: u8) {
        self.next_kind = kind;
    }

    /// No alarm is to ring before that.
    pub(crate) fn be_quiet_until(&mut self, then: Millis) {
        self.quiet_until = then;
    }

    /// When something else is to be done next; 0: now.
    pub(crate) fn next_due(&self) -> Option<Millis> {
        if self.connections.has_closed() || !self.sweeps.is_empty() {
            return Some(0);
        }
        let alarms = [self.at_once.first(), self.alarms.first(), self.renewals.first()].into_iter().flatten();
        let alarms = alarms.map(|(at, _)| *at).chain(self.tries.first().map(|_| 0));
        let alarms = alarms.map(|at| at.max(self.quiet_until).max(0));
        alarms.chain(self.timeouts.first().map(|(at, _)| *at)).min()
    }
}
