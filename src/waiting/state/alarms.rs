//! Which lock to look at when.

use super::{At, Place, State};
use crate::lock::Millis;

impl<C: Copy> State<C> {
    /// Has a lock looked at at that time at the latest, if anybody waits for it or keeps it alive; whether somebody does.
    pub(crate) fn alarm_at(&mut self, at: At<'_>, time: Millis) -> bool {
        let Some(line) = self.lines.get_mut(at) else { return false };
        let earlier = line.alarm;
        if earlier.is_some_and(|earlier| earlier <= time) {
            return true;
        }
        line.alarm = Some(time);
        let Some(place) = self.place(at) else { return false };
        if let Some(later) = earlier {
            self.alarms.remove(&(later, place.clone()));
        }
        self.alarms.insert((time, place));
        true
    }

    /// Something has been done to a lock's key: it is looked at now, if anybody waits for it or keeps it alive; whether somebody
    /// does.
    pub(crate) fn touched(&mut self, at: At<'_>) -> bool {
        self.with_line(at, |line| line.lapsed.iter_mut().for_each(|lapsed| lapsed.for_good = true));
        self.alarm_at(at, 0)
    }

    /// The same with all locks of a database, or of all.
    pub(crate) fn touched_db(&mut self, db: Option<i32>) {
        let places = self.lines.iter().map(|(place, _)| place.clone());
        let places: Vec<Place> = places.filter(|place| db.is_none_or(|db| db == place.db)).collect();
        for place in places {
            self.touched(place.at());
        }
    }

    /// The locks that are to be looked at now. Not one more, though looking at them may make others due: a server that
    /// does not let keys expire would have them due for ever.
    pub(crate) fn take_due(&mut self, now: Millis) -> Vec<Place> {
        let mut due = Vec::new();
        while self.alarms.first().is_some_and(|(at, _)| *at <= now) {
            let Some((_, place)) = self.alarms.pop_first() else { break };
            self.with_line(place.at(), |line| line.alarm = None);
            due.push(place);
        }
        due
    }

    /// All that was due by then has been looked at.
    pub(crate) fn rang(&mut self, now: Millis) {
        self.rang_at = now;
    }

    /// No alarm is to ring before that.
    pub(crate) fn be_quiet_until(&mut self, then: Millis) {
        self.quiet_until = then;
    }

    /// When something else is to be done next.
    pub(crate) fn next_due(&self) -> Option<Millis> {
        let alarm = self.alarms.first().map(|(at, _)| (*at).max(self.quiet_until));
        let timeout = self.timeouts.first().map(|(at, _)| *at);
        alarm.into_iter().chain(timeout).min()
    }
}
