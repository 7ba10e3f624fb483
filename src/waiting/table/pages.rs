//! Pages of all waiters, over all locks. The longest wait comes first, since the numbers of requests rise with the time of arrival.

use std::ops::Bound;

use super::busiest::Busy;
use super::queue::RequestId;
use super::waiter::{Phase, Waiter, WaiterInfo};
use super::{LockId, LockRef, WaitTable};
use crate::lock::{Micros, Millis, Now};

/// A waiter, as it is shown.
pub(crate) struct WaitInfo {
    /// All locks that it waits for.
    pub(crate) ids: Vec<LockId>,
    /// The number of the one that keeps it waiting.
    pub(crate) stuck: usize,
    pub(crate) waiter: WaiterInfo,
}

impl WaitInfo {
    pub(super) fn new<C>(waiter: &Waiter<C>, now: Now) -> Self {
        Self {
            ids: waiter.locks.all().iter().map(|lock| lock.id.clone()).collect(),
            stuck: waiter.locks.stuck(),
            waiter: WaiterInfo::new(waiter, now),
        }
    }

    /// The lock that keeps it waiting.
    pub(crate) fn id(&self) -> Option<&LockId> {
        self.ids.get(self.stuck)
    }
}

/// Some of those who wait, in order.
pub(crate) struct Page {
    pub(crate) waits: Vec<WaitInfo>,
    /// The last one that was looked at, where there are more.
    pub(crate) last: Option<RequestId>,
}

/// How many waiters and names of locks are gone through for one page, at most: a place whose grant has not been claimed is passed
/// over, and one waiter may wait for a thousand locks. Long names count more: see `LockRef::weight`.
const PAGE: usize = 5_000;

impl<C: Copy> WaitTable<C> {
    /// So many of those who wait for any lock, and came after that one; fewer where too much else is in between.
    pub(crate) fn page(&mut self, after: Option<RequestId>, count: usize, now: Now) -> Page {
        self.find_first();
        let after = after.map_or(Bound::Included(self.observers.first), Bound::Excluded);
        let waiters = self.waiters.range((after, Bound::Unbounded));
        page(waiters.map(|(request, waiter)| (*request, waiter)), count, now)
    }

    /// A page of those who wait for that lock.
    pub(crate) fn page_of(&self, at: LockRef<'_>, after: Option<RequestId>, count: usize, now: Now) -> Page {
        let requests = self.lock(at).queue.after(after);
        page(requests.filter_map(|request| Some((request, self.waiters.get(&request)?))), count, now)
    }

    /// How long somebody has waited, at most, in ms; 0 where nobody waits.
    pub(crate) fn oldest_wait(&mut self, now: Micros) -> Millis {
        let first = self.find_first().and_then(|request| self.waiters.get(&request));
        first.map_or(0, |waiter| waiter.waited(now))
    }

    /// How many waits have ended without a grant: a timeout, a client that went away, and the like.
    pub(crate) fn ungranted(&self) -> u64 {
        self.observers.ungranted
    }

    /// So many of the locks that are waited for most often, after so many others; with how many wait now. And whether there are
    /// more.
    pub(crate) fn busiest(&self, after: usize, count: usize) -> (Vec<(LockId, Busy, usize)>, bool) {
        let mut rest = self.observers.busiest.all().skip(after);
        let waiters = |at: LockRef<'_>| self.lock(at).waiters();
        let some =
            rest.by_ref().take(count).map(|(id, busy)| (id.clone(), busy.clone(), waiters(id.to_ref())));
        (some.collect(), rest.next().is_some())
    }

    /// The one who has waited longest. A waiter that stands in no queue any more is passed over once.
    fn find_first(&mut self) -> Option<RequestId> {
        let mut waiters = self.waiters.range(self.observers.first..);
        let first = waiters.find(|(_, waiter)| waiter.phase == Phase::Queued).map(|(request, _)| *request);
        self.observers.first = first.unwrap_or(RequestId(self.last_request));
        first
    }
}

fn page<'a, C: 'a>(
    waiters: impl Iterator<Item = (RequestId, &'a Waiter<C>)>,
    count: usize,
    now: Now,
) -> Page {
    let (mut waits, mut last, mut left) = (Vec::new(), None, PAGE);
    for (request, waiter) in waiters {
        if waits.len() == count || left == 0 {
            return Page { waits, last };
        }
        last = Some(request);
        if waiter.phase == Phase::Queued {
            left = left.saturating_sub(waiter.locks.weight());
            waits.push(WaitInfo::new(waiter, now));
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

    use super::super::{Answer, Arrival, WaitKind};
    use super::*;
    use crate::lock::{AcquireRequest, Owner, Room};

    fn now(millis: Millis) -> Now {
        Now { micros: millis * 1000, start: millis }
    }

    fn at(key: &[u8]) -> LockRef<'_> {
        LockRef { db: 0, key }
    }

    fn arrival(since: Millis) -> Arrival<RequestId> {
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
        Arrival {
            ask,
            way: WaitKind::Blocked(RequestId::MIN),
            client_id: 7,
            since: since * 1000,
            timeout: 0,
            confirm: None,
        }
    }

    fn join(table: &mut WaitTable<RequestId>, key: &[u8], since: Millis) -> RequestId {
        let request = table.next_request();
        table.join(at(key), request, arrival(since));
        request
    }

    /// All that are shown, page by page.
    fn all(table: &mut WaitTable<RequestId>, key: Option<&[u8]>, count: usize) -> Vec<Millis> {
        let (mut shown, mut after) = (Vec::new(), None);
        loop {
            let page = match key {
                None => table.page(after, count, now(100)),
                Some(key) => table.page_of(at(key), after, count, now(100)),
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
            let mut table = WaitTable::new();
            // Since when, and which lock.
            let mut waiting: Vec<(RequestId, u8, Millis)> = Vec::new();
            for (time, step) in (0..).zip(steps) {
                match step {
                    Step::Join(key) => waiting.push((join(&mut table, &[key], time), key, time)),
                    Step::Answer(which) if which < waiting.len() => {
                        table.answer(waiting.remove(which).0, Answer::TimedOut);
                    }
                    Step::Forget(which) if which < waiting.len() => {
                        let (request, ..) = waiting.remove(which);
                        table.depart(request);
                        table.forget(request);
                    }
                    Step::Answer(_) | Step::Forget(_) => (),
                }
                let waited = |of: Option<u8>| {
                    let its = waiting.iter().filter(|(_, key, _)| of.is_none_or(|of| *key == of));
                    its.map(|(.., since)| 100 - since).collect::<Vec<_>>()
                };
                prop_assert_eq!(all(&mut table, None, count), waited(None));
                for key in 0..3 {
                    prop_assert_eq!(all(&mut table, Some(&[key]), count), waited(Some(key)));
                }
                let oldest = waited(None).first().copied().unwrap_or(0);
                prop_assert_eq!(table.oldest_wait(now(100).micros), oldest);
            }
        }
    }

    /// Each of them waits for as many locks as one may.
    #[test]
    fn a_page_ends_early_where_there_is_too_much_on_it() {
        let mut table = WaitTable::<RequestId>::new();
        let keys: Vec<[u8; 2]> = (0..1000u16).map(u16::to_be_bytes).collect();
        let places: Vec<LockRef<'_>> = keys.iter().map(|key| at(key)).collect();
        for _ in 0..8 {
            let request = table.next_request();
            table.join_all(&places, 3, request, arrival(0));
        }
        let page = table.page(None, 100, now(1));
        assert_eq!((page.waits.len(), page.last.is_some()), (5, true));
        let first = &page.waits[0];
        assert_eq!((first.ids.len(), first.id().map(|id| &id.key[..])), (1000, Some(&keys[3][..])));
        assert_eq!(all(&mut table, None, 100).len(), 8);
    }

    /// Each is shown nevertheless, however long the name is.
    #[test]
    fn a_page_ends_early_where_names_are_long() {
        let mut table = WaitTable::<RequestId>::new();
        let key = vec![b'k'; 1 << 20];
        for since in 0..12 {
            join(&mut table, &key, since);
        }
        join(&mut table, &vec![b'l'; 8 << 20], 12);
        join(&mut table, b"k", 13);
        let page = table.page(None, 100, now(100));
        assert_eq!((page.waits.len(), page.last.is_some()), (5, true));
        assert_eq!(table.page_of(at(&key), None, 100, now(100)).waits.len(), 5);
        assert_eq!(all(&mut table, None, 100).len(), 14);
    }

    #[test]
    fn nobody_has_waited_for_less_than_nothing() {
        let mut table = WaitTable::new();
        assert_eq!(table.oldest_wait(now(5).micros), 0);
        join(&mut table, b"k", 10);
        assert_eq!(table.oldest_wait(now(5).micros), 0);
    }
}
