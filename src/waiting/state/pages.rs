//! What is shown of all that wait, over all locks: the longest wait first, since tickets rise with the time of arrival.

use std::ops::Bound;

use super::busiest::Busy;
use super::queue::Ticket;
use super::waiter::{Phase, Waiter, WaiterInfo};
use super::{At, Place, State};
use crate::lock::{Micros, Millis, Now};

/// One who waits.
pub(crate) struct Waits {
    /// All locks that it waits for.
    pub(crate) places: Vec<Place>,
    /// The number of the one that keeps it waiting.
    pub(crate) stuck: usize,
    pub(crate) waiter: WaiterInfo,
}

impl Waits {
    pub(super) fn new<C>(waiter: &Waiter<C>, now: Now) -> Self {
        Self {
            places: waiter.stands.all().iter().map(|stand| stand.place.clone()).collect(),
            stuck: waiter.stands.stuck(),
            waiter: WaiterInfo::new(waiter, now),
        }
    }

    /// The lock that keeps it waiting.
    pub(crate) fn place(&self) -> Option<&Place> {
        self.places.get(self.stuck)
    }
}

/// Some of those who wait, in order.
pub(crate) struct Page {
    pub(crate) waits: Vec<Waits>,
    /// The last one that was looked at, where there are more.
    pub(crate) last: Option<Ticket>,
}

/// How many waiters and names of locks are gone through for one page, at most: a place whose grant has not been claimed is passed
/// over, and one waiter may wait for a thousand locks. Long names count more: see `At::weight`.
const PAGE: usize = 5_000;

impl<C: Copy> State<C> {
    /// So many of those who wait for any lock, and came after that one; fewer where too much else is in between.
    pub(crate) fn page(&mut self, after: Option<Ticket>, count: usize, now: Now) -> Page {
        self.find_first();
        let after = after.map_or(Bound::Included(self.survey.first), Bound::Excluded);
        let waiters = self.waiters.range((after, Bound::Unbounded));
        page(waiters.map(|(ticket, waiter)| (*ticket, waiter)), count, now)
    }

    /// The same of those who wait for that lock.
    pub(crate) fn page_of(&self, at: At<'_>, after: Option<Ticket>, count: usize, now: Now) -> Page {
        let tickets = self.line(at).into_iter().flat_map(|line| line.queue.after(after));
        page(tickets.filter_map(|ticket| Some((ticket, self.waiters.get(&ticket)?))), count, now)
    }

    /// How long somebody has waited, at most, in ms; 0 where nobody waits.
    pub(crate) fn oldest_wait(&mut self, now: Micros) -> Millis {
        let first = self.find_first().and_then(|ticket| self.waiters.get(&ticket));
        first.map_or(0, |waiter| waiter.waited(now))
    }

    /// How many waits have ended without a grant: a timeout, a client that went away, and the like.
    pub(crate) fn ungranted(&self) -> u64 {
        self.survey.ungranted
    }

    /// So many of the locks that are waited for most often, after so many others; with how many wait now. And whether there are
    /// more.
    pub(crate) fn busiest(&self, after: usize, count: usize) -> (Vec<(Place, Busy, usize)>, bool) {
        let mut rest = self.survey.busiest.all().skip(after);
        let waiters = |at: At<'_>| self.waiters_of(at);
        let some =
            rest.by_ref().take(count).map(|(place, busy)| (place.clone(), busy.clone(), waiters(place.at())));
        (some.collect(), rest.next().is_some())
    }

    /// The one who has waited longest. A waiter that stands in no queue any more is passed over once.
    fn find_first(&mut self) -> Option<Ticket> {
        let mut waiters = self.waiters.range(self.survey.first..);
        let first = waiters.find(|(_, waiter)| waiter.phase == Phase::Queued).map(|(ticket, _)| *ticket);
        self.survey.first = first.unwrap_or(Ticket(self.last_ticket));
        first
    }
}

fn page<'a, C: 'a>(waiters: impl Iterator<Item = (Ticket, &'a Waiter<C>)>, count: usize, now: Now) -> Page {
    let (mut waits, mut last, mut left) = (Vec::new(), None, PAGE);
    for (ticket, waiter) in waiters {
        if waits.len() == count || left == 0 {
            return Page { waits, last };
        }
        last = Some(ticket);
        if waiter.phase == Phase::Queued {
            left = left.saturating_sub(waiter.stands.weight());
            waits.push(Waits::new(waiter, now));
        } else {
            left -= 1;
        }
    }
    Page { waits, last: None }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::super::{Answer, Arrival, Way};
    use super::*;
    use crate::lock::{Ask, Owner, Room};

    fn now(millis: Millis) -> Now {
        Now { micros: millis * 1000, start: millis }
    }

    fn at(key: &[u8]) -> At<'_> {
        At { db: 0, key }
    }

    fn arrival(since: Millis) -> Arrival<Ticket> {
        let owner = Owner::new(b"a").unwrap().into_owned();
        let ask = Ask { owner, lease: 10, max_hold: None, once: false, session: false, room: Room::ONE };
        Arrival {
            ask,
            way: Way::Blocked(Ticket::MIN),
            client_id: 7,
            since: since * 1000,
            timeout: 0,
            confirm: None,
        }
    }

    fn join(state: &mut State<Ticket>, key: &[u8], since: Millis) -> Ticket {
        let ticket = state.next_ticket();
        state.join(at(key), ticket, arrival(since));
        ticket
    }

    /// All that are shown, page by page.
    fn all(state: &mut State<Ticket>, key: Option<&[u8]>, count: usize) -> Vec<Millis> {
        let (mut shown, mut after) = (Vec::new(), None);
        loop {
            let page = match key {
                None => state.page(after, count, now(100)),
                Some(key) => state.page_of(at(key), after, count, now(100)),
            };
            assert!(page.waits.len() <= count);
            shown.extend(page.waits.iter().map(|waits| waits.waiter.waited));
            after = page.last;
            if after.is_none() {
                return shown;
            }
        }
    }

    #[derive(Clone, Debug)]
    enum Step {
        Join(u8),
        Answer(usize),
        Forget(usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            3 => (0..3u8).prop_map(Step::Join),
            1 => (0..20usize).prop_map(Step::Answer),
            1 => (0..20usize).prop_map(Step::Forget),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

        /// Whoever has been answered or has gone meanwhile, and however often somebody looks.
        #[test]
        fn the_pages_are_those_who_wait_in_order(steps in vec(step(), 0..40), count in 1..4usize) {
            let mut state = State::new();
            // Since when, and which lock.
            let mut waiting: Vec<(Ticket, u8, Millis)> = Vec::new();
            for (time, step) in (0..).zip(steps) {
                match step {
                    Step::Join(key) => waiting.push((join(&mut state, &[key], time), key, time)),
                    Step::Answer(which) if which < waiting.len() => {
                        state.answer(waiting.remove(which).0, Answer::TimedOut);
                    }
                    Step::Forget(which) if which < waiting.len() => {
                        let (ticket, ..) = waiting.remove(which);
                        state.depart(ticket);
                        state.forget(ticket);
                    }
                    Step::Answer(_) | Step::Forget(_) => (),
                }
                let waited = |of: Option<u8>| {
                    let its = waiting.iter().filter(|(_, key, _)| of.is_none_or(|of| *key == of));
                    its.map(|(.., since)| 100 - since).collect::<Vec<_>>()
                };
                prop_assert_eq!(all(&mut state, None, count), waited(None));
                for key in 0..3 {
                    prop_assert_eq!(all(&mut state, Some(&[key]), count), waited(Some(key)));
                }
                let oldest = waited(None).first().copied().unwrap_or(0);
                prop_assert_eq!(state.oldest_wait(now(100).micros), oldest);
            }
        }
    }

    /// Each of them waits for as many locks as one may.
    #[test]
    fn a_page_ends_early_where_there_is_too_much_on_it() {
        let mut state = State::<Ticket>::new();
        let keys: Vec<[u8; 2]> = (0..1000u16).map(u16::to_be_bytes).collect();
        let places: Vec<At<'_>> = keys.iter().map(|key| at(key)).collect();
        for _ in 0..8 {
            let ticket = state.next_ticket();
            state.join_all(&places, 3, ticket, arrival(0));
        }
        let page = state.page(None, 100, now(1));
        assert_eq!((page.waits.len(), page.last.is_some()), (5, true));
        let first = &page.waits[0];
        assert_eq!(
            (first.places.len(), first.place().map(|place| &place.key[..])),
            (1000, Some(&keys[3][..]))
        );
        assert_eq!(all(&mut state, None, 100).len(), 8);
    }

    /// Each is shown all the same, however long the name is.
    #[test]
    fn a_page_ends_early_where_names_are_long() {
        let mut state = State::<Ticket>::new();
        let key = vec![b'k'; 1 << 20];
        for since in 0..12 {
            join(&mut state, &key, since);
        }
        join(&mut state, &vec![b'l'; 8 << 20], 12);
        join(&mut state, b"k", 13);
        let page = state.page(None, 100, now(100));
        assert_eq!((page.waits.len(), page.last.is_some()), (5, true));
        assert_eq!(state.page_of(at(&key), None, 100, now(100)).waits.len(), 5);
        assert_eq!(all(&mut state, None, 100).len(), 14);
    }

    #[test]
    fn nobody_has_waited_for_less_than_nothing() {
        let mut state = State::new();
        assert_eq!(state.oldest_wait(now(5).micros), 0);
        join(&mut state, b"k", 10);
        assert_eq!(state.oldest_wait(now(5).micros), 0);
    }
}
