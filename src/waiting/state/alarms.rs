//! Which lock to look at when.

use std::sync::Arc;

use super::State;
use crate::lock::Millis;
use crate::waiting::waiter::Place;

impl State {
    /// Has a lock looked at at that time at the latest, if anybody waits for it or keeps it alive; whether somebody does.
    pub(in crate::waiting) fn alarm_at(&mut self, db: i32, key: &[u8], at: Millis) -> bool {
        match self.place(db, key) {
            Some(place) => {
                self.alarm(place, at);
                true
            }
            None => false,
        }
    }

    /// Has a lock looked at at that time at the latest.
    pub(in crate::waiting) fn alarm(&mut self, place: Place, at: Millis) {
        if let Some(line) = self.line_mut(place.db, &place.key) {
            match line.alarm {
                Some(earlier) if earlier <= at => return,
                later => {
                    line.alarm = Some(at);
                    if let Some(later) = later {
                        self.alarms.remove(&(later, place.clone()));
                    }
                }
            }
        }
        self.alarms.insert((at, place));
    }

    /// Has all locks of a database, or of all, looked at now.
    pub(in crate::waiting) fn alarm_db(&mut self, db: Option<i32>) {
        let lines = self.lines.iter().filter(|&(&number, _)| db.is_none_or(|db| db == number));
        let places: Vec<Place> = lines
            .flat_map(|(&db, lines)| lines.keys().map(move |key| Place { db, key: Arc::clone(key) }))
            .collect();
        for place in places {
            self.alarm(place, 0);
        }
    }

    /// The locks that are to be looked at now. Not one more, though looking at them may make others due: a server that
    /// does not let keys expire would have them due for ever.
    pub(in crate::waiting) fn take_due(&mut self, now: Millis) -> Vec<Place> {
        let mut due = Vec::new();
        while self.alarms.first().is_some_and(|(at, _)| *at <= now) {
            let Some((_, place)) = self.alarms.pop_first() else { break };
            if let Some(line) = self.line_mut(place.db, &place.key) {
                line.alarm = None;
            }
            due.push(place);
        }
        due
    }

    /// When something else is to be done next.
    pub(in crate::waiting) fn next_due(&self) -> Option<Millis> {
        let alarm = self.alarms.first().map(|(at, _)| (*at).max(self.quiet_until));
        let timeout = self.timeouts.first().map(|(at, _)| *at);
        alarm.into_iter().chain(timeout).min()
    }
}
