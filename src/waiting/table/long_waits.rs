//! Waiters that have waited so long that somebody is to hear of it. Each is found once, without a walk: those who came first have waited
//! longest, so there is one mark, and who is in front of it has been looked at.

use std::ops::Bound;

use super::WaitTable;
use super::pages::WaitInfo;
use super::waiter::Phase;
use crate::lock::{Millis, Now};

/// How many are looked at in one go, at most; the rest in the next.
const LOOKS: usize = 5_000;

/// The waiters that have come to wait that long since somebody asked last.
#[derive(Default)]
pub(crate) struct LongWaits {
    pub(crate) waits: Vec<WaitInfo>,
    /// So many more.
    pub(crate) others: u64,
}

impl<C: Copy> WaitTable<C> {
    /// The waiters that have waited for `limit` ms and were not found before; at most `most` of them are shown.
    pub(crate) fn long_waits(&mut self, limit: Millis, most: usize, now: Now) -> LongWaits {
        let mut found = LongWaits::default();
        let seen = self.observers.long_waits;
        for (request, waiter) in self.waiters.range((Bound::Excluded(seen), Bound::Unbounded)).take(LOOKS) {
            if waiter.phase == Phase::Queued {
                // One who came by a clock that has been set back since is left out, so that it holds nobody up.
                let waited = now.micros.saturating_sub(waiter.since) / 1000;
                if (0..limit).contains(&waited) {
                    break;
                }
                match waited {
                    ..0 => (),
                    _ if found.waits.len() < most => found.waits.push(WaitInfo::new(waiter, now)),
                    _ => found.others += 1,
                }
            }
            self.observers.long_waits = *request;
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Answer, Arrival, LockRef, RequestId, WaitKind};
    use super::*;
    use crate::lock::{AcquireRequest, Owner, Room};

    fn join(table: &mut WaitTable<RequestId>, since: Millis) -> RequestId {
        let owner = Owner::new(b"a").unwrap().into_owned();
        let ask = AcquireRequest {
            owner,
            lease: 10,
            max_hold: None,
            once: false,
            session: false,
            room: Room::ONE,
            slot: None,
            label: None,
        };
        let request = table.next_request();
        let way = WaitKind::Blocked(request);
        let arrival = Arrival { ask, way, client_id: 7, since: since * 1000, timeout: 0, confirm: None };
        table.join(LockRef { db: 0, key: b"k" }, request, arrival);
        request
    }

    fn found(
        table: &mut WaitTable<RequestId>,
        limit: Millis,
        most: usize,
        now: Millis,
    ) -> (Vec<Millis>, u64) {
        let found = table.long_waits(limit, most, Now { micros: now * 1000, start: now });
        (found.waits.iter().map(|waits| waits.waiter.waited).collect(), found.others)
    }

    #[test]
    fn each_is_found_once_when_it_has_waited_so_long() {
        let mut table = WaitTable::new();
        join(&mut table, 0);
        let answered = join(&mut table, 10);
        join(&mut table, 20);
        assert_eq!(found(&mut table, 100, 9, 99), (vec![], 0));
        assert_eq!(found(&mut table, 100, 9, 100), (vec![100], 0));
        assert_eq!(found(&mut table, 100, 9, 105), (vec![], 0));
        table.answer(answered, Answer::TimedOut);
        join(&mut table, 120);
        assert_eq!(found(&mut table, 100, 9, 130), (vec![110], 0));
        // The limit has been lowered.
        assert_eq!(found(&mut table, 5, 9, 130), (vec![10], 0));
        assert_eq!(found(&mut table, 5, 9, 1000), (vec![], 0));
    }

    #[test]
    fn who_is_not_shown_is_counted() {
        let mut table = WaitTable::new();
        for since in 0..10 {
            join(&mut table, since);
        }
        assert_eq!(found(&mut table, 100, 3, 107), (vec![107, 106, 105], 5));
        assert_eq!(found(&mut table, 100, 3, 200), (vec![192, 191], 0));
    }

    #[test]
    fn a_clock_that_is_set_back_holds_nobody_up() {
        let mut table = WaitTable::new();
        join(&mut table, 5000);
        join(&mut table, 10);
        assert_eq!(found(&mut table, 100, 9, 110), (vec![100], 0));
    }

    #[test]
    fn many_are_looked_at_in_several_goes() {
        let mut table = WaitTable::new();
        for _ in 0..LOOKS + 7 {
            join(&mut table, 0);
        }
        assert_eq!(found(&mut table, 100, 0, 100), (vec![], LOOKS as u64));
        assert_eq!(found(&mut table, 100, 0, 100), (vec![], 7));
    }
}
