//! Which lock to look at when.

use std::sync::Arc;

use super::{At, Place, State};
use crate::lock::Millis;

impl<C: Copy> State<C> {
    /// Has a lock looked at at that time at the latest, if anybody waits for it or keeps it alive; whether somebody does.
    pub(crate) fn alarm_at(&mut self, at: At<'_>, time: Millis) -> bool {
        let Some(place) = self.place(at) else { return false };
        let earlier = self.with_line(at, |line| {
            let earlier = line.alarm;
            line.alarm = Some(earlier.map_or(time, |earlier| earlier.min(time)));
            earlier
        });
        match earlier.flatten() {
            Some(earlier) if earlier <= time => return true,
            Some(later) => _ = self.alarms.remove(&(later, place.clone())),
            None => {}
        }
        self.alarms.insert((time, place));
        true
    }

    /// Has all locks of a database, or of all, looked at now.
    pub(crate) fn alarm_db(&mut self, db: Option<i32>) {
        let lines = self.lines.iter().filter(|&(&number, _)| db.is_none_or(|db| db == number));
        let places: Vec<Place> = lines
            .flat_map(|(&db, lines)| lines.keys().map(move |key| Place { db, key: Arc::clone(key) }))
            .collect();
        for place in places {
            self.alarm_at(place.at(), 0);
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
