//! Tests what operators are shown of waiting clients, and how much memory waiters and sessions take.

use proptest::collection::vec;
use proptest::prelude::*;

use super::server::{Lock, Rules, Server, time};
use crate::counted::allocated_by;
use crate::lock::{
    AcquireRequest, Deadline, Fence, FenceClock, Grant, LONGEST_LEASE, Limits, Millis, Owner, Value,
};
use crate::waiting::waiter::{Answer, Caller, Stage};
use crate::waiting::{self, Effects, Env, Grants, Outcome, Site, Table};
use crate::waiting::{Channel, GraceLeft, LockRef, RequestId, WaitOptions};

/// The most waiters that one call of `long_waits` looks at.
const LOOKS: usize = 5_000;

const LIMITS: Limits =
    Limits { max_lease: LONGEST_LEASE, max_hold: None, expiry_slack: 0, max_holders: 0, may_lengthen: true };

fn at(key: &[u8]) -> LockRef<'_> {
    LockRef { db: 0, key }
}

fn held(made: Millis) -> Value {
    let holder = Owner::new(b"holder").unwrap().into_owned();
    Value::One(Grant::new(holder, Fence::new(1).unwrap(), 1, None, made))
}

/// A client acquires these locks. Another client holds the locks from number `free` on.
fn acquire(
    table: &mut Table<RequestId>,
    keys: &[&[u8]],
    free: usize,
    since: Millis,
    client: u64,
    channel: Option<&str>,
    session: bool,
) -> Outcome {
    let value = |number| (number >= free).then(|| held(0));
    let grants = |number| Grants::new(value(number), Deadline::Never);
    let mut open: Vec<_> = (0..keys.len()).map(|number| (grants(number), Effects::new())).collect();
    let (mut fences, grace, now, is_open) =
        (FenceClock::new(), GraceLeft::default(), time(since), |_: u64| true);
    let mut env = Env { table, fences: &mut fences, limits: LIMITS, grace, now, is_open: &is_open };
    let sites = open.iter_mut().zip(keys).map(|((grants, done), key)| Site::new(at(key), grants, done));
    let caller =
        Caller { connection: client, may_block: true, most_waiters: None, most_places: None, claim: 60_000 };
    let channel =
        channel.map(|channel| Channel { address: channel.as_bytes().into(), wanted: false, start: None });
    let wait = WaitOptions { timeout: Some(0), channel, ..WaitOptions::default() };
    let ask = AcquireRequest { session, ..AcquireRequest::new(Owner::random(), 10_000) };
    let mut sites: Vec<_> = sites.collect();
    let outcome = waiting::acquire(&mut env, &mut sites, keys.len() > 1, &caller, &ask, &wait).unwrap();
    if let Outcome::Waits(request) = outcome {
        table.blocked(request, request);
    }
    outcome
}

fn join(table: &mut Table<RequestId>, key: &[u8], since: Millis) -> RequestId {
    match acquire(table, &[key], 0, since, 7, None, false) {
        Outcome::Waits(request) => request,
        outcome => panic!("{outcome:?}"),
    }
}

fn answer(table: &mut Table<RequestId>, request: RequestId) {
    assert!(table.leave_queues(request, Stage::Answered(Answer::TimedOut)));
}

/// Returns when each shown wait began, over all pages.
fn all(table: &mut Table<RequestId>, key: Option<&[u8]>, count: usize) -> Vec<Millis> {
    let (mut shown, mut after) = (Vec::new(), None);
    loop {
        let page = table.page(key.map(at), after, count, time(100));
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

#[derive(Clone, Debug)]
enum Action {
    Join(Lock),
    Leave(usize),
    /// A new owner gets the lock, whoever held it before.
    Grant(Lock),
    Free(Lock),
    Ask,
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        3 => (0..3 as Lock).prop_map(Action::Join),
        2 => (0..8usize).prop_map(Action::Leave),
        3 => (0..3 as Lock).prop_map(Action::Grant),
        1 => (0..3 as Lock).prop_map(Action::Free),
        2 => Just(Action::Ask),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    /// Waiters that have been answered or have left are not shown, however often the pages are read.
    #[test]
    fn the_pages_are_those_who_wait_in_order(steps in vec(step(), 0..40), count in 1..4usize) {
        let mut table = Table::new();
        // Each waiter, its lock, and when its wait began.
        let mut waiting: Vec<(RequestId, u8, Millis)> = Vec::new();
        for (time, step) in (0..).zip(steps) {
            match step {
                Step::Join(key) => waiting.push((join(&mut table, &[key], time), key, time)),
                Step::Answer(which) if which < waiting.len() => answer(&mut table, waiting.remove(which).0),
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
            prop_assert_eq!(table.oldest_wait(super::server::time(100)), oldest);
        }
    }

    #[test]
    fn the_longest_held_lock_is_found(actions in vec(action(), 0..60)) {
        let (mut server, mut waiting) = (Server::new(1), Vec::<(Lock, RequestId)>::new());
        for (now, action) in (1..).zip(actions) {
            match action {
                Action::Join(lock) => {
                    let key = super::server::at(lock).key;
                    let Outcome::Waits(request) = acquire_held(&mut server, lock, key, now) else { panic!() };
                    waiting.push((lock, request));
                }
                Action::Leave(which) if which < waiting.len() => {
                    let (_, request) = waiting.remove(which);
                    server.table.depart(request);
                    server.table.forget(request);
                }
                Action::Leave(_) => (),
                Action::Grant(lock) => server.locks[lock] = Some((held(now), Deadline::Never)),
                Action::Free(lock) => server.locks[lock] = None,
                Action::Ask => {
                    let made = |lock: &Lock| {
                        let (value, until) = server.locks[*lock].as_ref()?;
                        Some(now - value.all(*until).next()?.grant.age(now))
                    };
                    let since = waiting.iter().filter_map(|(lock, _)| made(lock)).min();
                    let shown = server.longest_held(Rules::PLAIN, now);
                    prop_assert_eq!(shown, since.map_or(0, |since| now - since));
                }
            }
            server.check();
        }
    }
}

/// A client waits for a lock. If the lock is free, somebody else gets it first.
fn acquire_held(server: &mut Server, lock: Lock, key: &[u8], now: Millis) -> Outcome {
    let (value, until) = server.locks[lock].take().unwrap_or_else(|| (held(now), Deadline::Never));
    let (mut grants, mut done) = (Grants::new(Some(value), until), Effects::new());
    let (grace, is_open) = (GraceLeft::default(), |_: u64| true);
    let Server { table, fences, locks, .. } = server;
    let mut env = Env { table, fences, limits: LIMITS, grace, now: time(now), is_open: &is_open };
    let mut site = Site::new(at(key), &mut grants, &mut done);
    let caller = Caller { connection: 7, may_block: true, most_waiters: None, most_places: None, claim: 1 };
    let wait = WaitOptions { timeout: Some(0), ..WaitOptions::default() };
    let ask = AcquireRequest::new(Owner::random(), 10_000);
    let outcome = waiting::acquire(&mut env, std::slice::from_mut(&mut site), false, &caller, &ask, &wait);
    locks[lock] = grants.value.map(|value| (value, until));
    outcome.unwrap()
}

/// Each waiter waits for as many locks as a request may name, so a page has fewer waiters than were asked for.
#[test]
fn a_page_ends_early_where_there_is_too_much_on_it() {
    let mut table = Table::<RequestId>::new();
    let keys: Vec<[u8; 2]> = (0..1000u16).map(u16::to_be_bytes).collect();
    let keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
    for _ in 0..8 {
        acquire(&mut table, &keys, 3, 0, 7, None, false);
    }
    let page = table.page(None, None, 100, time(1));
    assert_eq!((page.waits.len(), page.last.is_some()), (5, true));
    let first = &page.waits[0];
    assert_eq!((first.ids.len(), first.id().map(|id| &id.key[..])), (1000, Some(keys[3])));
    assert_eq!(all(&mut table, None, 100).len(), 8);
}

/// Long names shorten a page, but each waiter is shown, however long the name of its lock is.
#[test]
fn a_page_ends_early_where_names_are_long() {
    let mut table = Table::<RequestId>::new();
    let key = vec![b'k'; 1 << 20];
    for since in 0..12 {
        join(&mut table, &key, since);
    }
    join(&mut table, &vec![b'l'; 8 << 20], 12);
    join(&mut table, b"k", 13);
    let page = table.page(None, None, 100, time(100));
    assert_eq!((page.waits.len(), page.last.is_some()), (5, true));
    assert_eq!(table.page(Some(at(&key)), None, 100, time(100)).waits.len(), 5);
    assert_eq!(all(&mut table, None, 100).len(), 14);
}

#[test]
fn nobody_has_waited_for_less_than_nothing() {
    let mut table = Table::new();
    assert_eq!(table.oldest_wait(time(5)), 0);
    join(&mut table, b"k", 10);
    assert_eq!(table.oldest_wait(time(5)), 0);
}

fn found(table: &mut Table<RequestId>, limit: Millis, most: usize, now: Millis) -> (Vec<Millis>, u64) {
    let found = table.long_waits(limit, most, time(now));
    (found.waits.iter().map(|waits| waits.waiter.waited).collect(), found.others)
}

#[test]
fn each_is_found_once_when_it_has_waited_so_long() {
    let mut table = Table::new();
    join(&mut table, b"k", 0);
    let answered = join(&mut table, b"k", 10);
    join(&mut table, b"k", 20);
    assert_eq!(found(&mut table, 100, 9, 99), (vec![], 0));
    assert_eq!(found(&mut table, 100, 9, 100), (vec![100], 0));
    assert_eq!(found(&mut table, 100, 9, 105), (vec![], 0));
    answer(&mut table, answered);
    join(&mut table, b"k", 120);
    assert_eq!(found(&mut table, 100, 9, 130), (vec![110], 0));
    // The limit above which a wait counts as long has been lowered.
    assert_eq!(found(&mut table, 5, 9, 130), (vec![10], 0));
    assert_eq!(found(&mut table, 5, 9, 1000), (vec![], 0));
}

#[test]
fn who_is_not_shown_is_counted() {
    let mut table = Table::new();
    for since in 0..10 {
        join(&mut table, b"k", since);
    }
    assert_eq!(found(&mut table, 100, 3, 107), (vec![107, 106, 105], 5));
    assert_eq!(found(&mut table, 100, 3, 200), (vec![192, 191], 0));
}

#[test]
fn a_clock_that_is_set_back_holds_nobody_up() {
    let mut table = Table::new();
    join(&mut table, b"k", 5000);
    join(&mut table, b"k", 10);
    assert_eq!(found(&mut table, 100, 9, 110), (vec![100], 0));
}

#[test]
fn many_are_looked_at_in_several_goes() {
    let mut table = Table::new();
    for _ in 0..LOOKS + 7 {
        join(&mut table, b"k", 0);
    }
    assert_eq!(found(&mut table, 100, 0, 100), (vec![], LOOKS as u64));
    assert_eq!(found(&mut table, 100, 0, 100), (vec![], 7));
}

/// Calls `add` many times. Returns how many bytes each call allocates, on average, with an allocator that rounds sizes as the server's does.
fn each(name: &str, mut add: impl FnMut(&mut Table<RequestId>, u64)) -> usize {
    const MANY: u64 = 10_000;
    let mut table = Table::new();
    let ((), bytes) = allocated_by(|| (0..MANY).for_each(|number| add(&mut table, number)));
    let bytes = bytes / MANY as usize;
    println!("figure: {name}: {bytes} bytes");
    bytes
}

#[test]
fn what_waiters_and_sessions_take() {
    Owner::random();
    let (now, channel) = (1_700_000_000_000, Some("channel:1234567"));
    let key = |number: u64| format!("lock:{number:08}");
    let cases: [(&str, bool, Option<&str>, bool, usize); 5] = [
        ("a blocked client, all in one queue", true, None, false, 600),
        ("a blocked client, each in a queue of its own", false, None, false, 1_024),
        ("a place, all in one queue", true, channel, false, 700),
        ("a place, each in a queue of its own", false, channel, false, 1_024),
        ("a session", false, None, true, 640),
    ];
    for (name, is_one, channel, session, most) in cases {
        let bytes = each(name, |table, number| {
            // Each blocked client has a connection of its own.
            let client = if channel.is_some() || session { 1 } else { number };
            let key = key(if is_one { 0 } else { number });
            let free = usize::from(session);
            acquire(table, &[key.as_bytes()], free, now, client, channel, session);
        });
        assert!(bytes <= most, "{name}: {bytes}");
    }
}
