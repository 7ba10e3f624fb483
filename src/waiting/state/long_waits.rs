//! Who has waited so long that somebody is to hear of it. Each is found once, without a walk: those who came first have waited
//! longest, so there is one mark, and who is in front of it has been looked at.

use std::ops::Bound;

use super::State;
use super::pages::Waits;
use super::waiter::Phase;
use crate::lock::{Millis, Now};

/// How many are looked at in one go, at most; the rest in the next.
const LOOKS: usize = 5_000;

/// Those who have waited for so long since somebody asked last.
#[derive(Default)]
pub(crate) struct LongWaits {
    pub(crate) waits: Vec<Waits>,
    /// So many more.
    pub(crate) others: u64,
}

impl<C: Copy> State<C> {
    /// Those who have waited for that long, in ms, and were not found before; so many of them are shown.
    pub(crate) fn long_waits(&mut self, limit: Millis, most: usize, now: Now) -> LongWaits {
        let mut found = LongWaits::default();
        let seen = self.survey.long_waits;
        for (ticket, waiter) in self.waiters.range((Bound::Excluded(seen), Bound::Unbounded)).take(LOOKS) {
            if waiter.phase == Phase::Queued {
                // One who came by a clock that has been set back since is left out, so that it holds nobody up.
                let waited = now.micros.saturating_sub(waiter.since) / 1000;
                if (0..limit).contains(&waited) {
                    break;
                }
                match waited {
                    ..0 => (),
                    _ if found.waits.len() < most => found.waits.push(Waits::new(waiter, now)),
                    _ => found.others += 1,
                }
            }
            self.survey.long_waits = *ticket;
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Answer, Arrival, At, Ticket, Way};
    use super::*;
    use crate::lock::{Ask, Owner, Room};

    fn join(state: &mut State<Ticket>, since: Millis) -> Ticket {
        let owner = Owner::new(b"a").unwrap().into_owned();
        let ask = Ask { owner, lease: 10, max_hold: None, once: false, session: false, room: Room::ONE };
        let ticket = state.next_ticket();
        let way = Way::Blocked(ticket);
        let arrival = Arrival { ask, way, client_id: 7, since: since * 1000, timeout: 0, confirm: None };
        state.join(At { db: 0, key: b"k" }, ticket, arrival);
        ticket
    }

    fn found(state: &mut State<Ticket>, limit: Millis, most: usize, now: Millis) -> (Vec<Millis>, u64) {
        let found = state.long_waits(limit, most, Now { micros: now * 1000, start: now });
        (found.waits.iter().map(|waits| waits.waiter.waited).collect(), found.others)
    }

    #[test]
    fn each_is_found_once_when_it_has_waited_so_long() {
        let mut state = State::new();
        join(&mut state, 0);
        let answered = join(&mut state, 10);
        join(&mut state, 20);
        assert_eq!(found(&mut state, 100, 9, 99), (vec![], 0));
        assert_eq!(found(&mut state, 100, 9, 100), (vec![100], 0));
        assert_eq!(found(&mut state, 100, 9, 105), (vec![], 0));
        state.answer(answered, Answer::TimedOut);
        join(&mut state, 120);
        assert_eq!(found(&mut state, 100, 9, 130), (vec![110], 0));
        // The limit has been lowered.
        assert_eq!(found(&mut state, 5, 9, 130), (vec![10], 0));
        assert_eq!(found(&mut state, 5, 9, 1000), (vec![], 0));
    }

    #[test]
    fn who_is_not_shown_is_counted() {
        let mut state = State::new();
        for since in 0..10 {
            join(&mut state, since);
        }
        assert_eq!(found(&mut state, 100, 3, 107), (vec![107, 106, 105], 5));
        assert_eq!(found(&mut state, 100, 3, 200), (vec![192, 191], 0));
    }

    #[test]
    fn a_clock_that_is_set_back_holds_nobody_up() {
        let mut state = State::new();
        join(&mut state, 5000);
        join(&mut state, 10);
        assert_eq!(found(&mut state, 100, 9, 110), (vec![100], 0));
    }

    #[test]
    fn many_are_looked_at_in_several_goes() {
        let mut state = State::new();
        for _ in 0..LOOKS + 7 {
            join(&mut state, 0);
        }
        assert_eq!(found(&mut state, 100, 0, 100), (vec![], LOOKS as u64));
        assert_eq!(found(&mut state, 100, 0, 100), (vec![], 7));
    }
}
