//! Tests of pages, and of waits that have lasted long.

use proptest::collection::vec;
use proptest::prelude::*;

use super::super::{Answer, Arrival, WaitKind, WaitTable};
use super::*;
use crate::lock::{AcquireRequest, Owner};

fn now(millis: Millis) -> Now {
    Now { micros: millis * 1000, start: millis }
}

fn at(key: &[u8]) -> LockRef<'_> {
    LockRef { db: 0, key }
}

fn arrival(since: Millis) -> Arrival<RequestId> {
    let owner = Owner::new(b"a").unwrap().into_owned();
    let ask = AcquireRequest::new(owner, 10);
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
    let request = table.waiters.next_request();
    table.join(&[at(key)], false, 0, request, arrival(since));
    request
}

/// When each wait that is shown began, over all pages.
fn all(table: &mut WaitTable<RequestId>, key: Option<&[u8]>, count: usize) -> Vec<Millis> {
    let (mut shown, mut after) = (Vec::new(), None);
    loop {
        let page = match key {
            None => table.shown().page(after, count, now(100)),
            Some(key) => table.shown().page_of(at(key), after, count, now(100)),
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

    /// Waiters that have been answered or have left are not shown, however often the pages are read.
    #[test]
    fn the_pages_are_those_who_wait_in_order(steps in vec(step(), 0..40), count in 1..4usize) {
        let mut table = WaitTable::new();
        // Each waiter, its lock, and when its wait began.
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
            prop_assert_eq!(table.shown().oldest_wait(now(100).micros), oldest);
        }
    }
}

/// Each waiter waits for as many locks as a request may name.
#[test]
fn a_page_ends_early_where_there_is_too_much_on_it() {
    let mut table = WaitTable::<RequestId>::new();
    let keys: Vec<[u8; 2]> = (0..1000u16).map(u16::to_be_bytes).collect();
    let places: Vec<LockRef<'_>> = keys.iter().map(|key| at(key)).collect();
    for _ in 0..8 {
        let request = table.waiters.next_request();
        table.join(&places, true, 3, request, arrival(0));
    }
    let page = table.shown().page(None, 100, now(1));
    assert_eq!((page.waits.len(), page.last.is_some()), (5, true));
    let first = &page.waits[0];
    assert_eq!((first.ids.len(), first.id().map(|id| &id.key[..])), (1000, Some(&keys[3][..])));
    assert_eq!(all(&mut table, None, 100).len(), 8);
}

/// Each waiter is shown nevertheless, however long the name of its lock is.
#[test]
fn a_page_ends_early_where_names_are_long() {
    let mut table = WaitTable::<RequestId>::new();
    let key = vec![b'k'; 1 << 20];
    for since in 0..12 {
        join(&mut table, &key, since);
    }
    join(&mut table, &vec![b'l'; 8 << 20], 12);
    join(&mut table, b"k", 13);
    let page = table.shown().page(None, 100, now(100));
    assert_eq!((page.waits.len(), page.last.is_some()), (5, true));
    assert_eq!(table.shown().page_of(at(&key), None, 100, now(100)).waits.len(), 5);
    assert_eq!(all(&mut table, None, 100).len(), 14);
}

#[test]
fn nobody_has_waited_for_less_than_nothing() {
    let mut table = WaitTable::new();
    assert_eq!(table.shown().oldest_wait(now(5).micros), 0);
    join(&mut table, b"k", 10);
    assert_eq!(table.shown().oldest_wait(now(5).micros), 0);
}

fn found(table: &mut WaitTable<RequestId>, limit: Millis, most: usize, time: Millis) -> (Vec<Millis>, u64) {
    let found = table.shown().long_waits(limit, most, now(time));
    (found.waits.iter().map(|waits| waits.waiter.waited).collect(), found.others)
}

#[test]
fn each_is_found_once_when_it_has_waited_so_long() {
    let mut table = WaitTable::new();
    join(&mut table, b"k", 0);
    let answered = join(&mut table, b"k", 10);
    join(&mut table, b"k", 20);
    assert_eq!(found(&mut table, 100, 9, 99), (vec![], 0));
    assert_eq!(found(&mut table, 100, 9, 100), (vec![100], 0));
    assert_eq!(found(&mut table, 100, 9, 105), (vec![], 0));
    table.answer(answered, Answer::TimedOut);
    join(&mut table, b"k", 120);
    assert_eq!(found(&mut table, 100, 9, 130), (vec![110], 0));
    // The limit has been lowered.
    assert_eq!(found(&mut table, 5, 9, 130), (vec![10], 0));
    assert_eq!(found(&mut table, 5, 9, 1000), (vec![], 0));
}

#[test]
fn who_is_not_shown_is_counted() {
    let mut table = WaitTable::new();
    for since in 0..10 {
        join(&mut table, b"k", since);
    }
    assert_eq!(found(&mut table, 100, 3, 107), (vec![107, 106, 105], 5));
    assert_eq!(found(&mut table, 100, 3, 200), (vec![192, 191], 0));
}

#[test]
fn a_clock_that_is_set_back_holds_nobody_up() {
    let mut table = WaitTable::new();
    join(&mut table, b"k", 5000);
    join(&mut table, b"k", 10);
    assert_eq!(found(&mut table, 100, 9, 110), (vec![100], 0));
}

#[test]
fn many_are_looked_at_in_several_goes() {
    let mut table = WaitTable::new();
    for _ in 0..LOOKS + 7 {
        join(&mut table, b"k", 0);
    }
    assert_eq!(found(&mut table, 100, 0, 100), (vec![], LOOKS as u64));
    assert_eq!(found(&mut table, 100, 0, 100), (vec![], 7));
}
