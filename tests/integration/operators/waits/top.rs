//! `LOCK.WAITS TOP`: the locks that are waited for most often.

use super::{Shown, page, queue_up, waits};
use crate::several;
use crate::support::{Server, Waiter};

/// The names and how often each was waited for.
fn told(shown: &[Shown]) -> Vec<(String, i64)> {
    shown.iter().map(|shown| (shown.text("key"), shown.number("waits"))).collect()
}

fn expected(all: &[(&str, i64)]) -> Vec<(String, i64)> {
    all.iter().map(|(key, waits)| ((*key).to_owned(), *waits)).collect()
}

#[test]
fn the_lock_with_the_most_waits_comes_first() {
    let (server, [mut client, mut places]) = Server::and_clients();
    assert_eq!(told(&waits(&mut client, "TOP")), expected(&[]));
    for key in ["a", "b", "c"] {
        client.acquire(key, "OWNER alice PX 600000").unwrap();
    }
    queue_up(&mut places, "a", "one", "");
    for owner in ["one", "two", "three"] {
        queue_up(&mut places, "c", owner, "");
    }
    for _ in 0..2 {
        queue_up(&mut places, "b", "again", "");
        assert_eq!(places.ask::<i64>("LOCK.LEAVE b again"), 1);
    }
    // Nobody waits for this one.
    client.acquire("free", "OWNER alice").unwrap();
    for mut client in [server.client(), server.client_resp3()] {
        let top = waits(&mut client, "TOP");
        assert_eq!(told(&top), expected(&[("c", 3), ("b", 2), ("a", 1)]));
        let waiters: Vec<i64> = top.iter().map(|shown| shown.number("waiters")).collect();
        assert_eq!(waiters, [3, 0, 1]);
        assert!(top.iter().all(|shown| shown.number("error") == 0 && shown.number("db") == 0));
        assert!(top.iter().all(|shown| (0..60_000).contains(&shown.number("last-wait-ms"))));
    }
}

/// A place that is kept is one wait; a wait for several locks is one for each.
#[test]
fn each_wait_counts_once_for_each_lock() {
    let (server, [mut client, mut places]) = Server::and_clients();
    client.acquire("a", "OWNER alice PX 600000").unwrap();
    for _ in 0..3 {
        queue_up(&mut places, "a", "bob", "ONCE");
    }
    let _all = several::waits(&server, "a b", "carol", "");
    let _one = Waiter::new(&server, "b", "OWNER dave");
    assert_eq!(told(&waits(&mut client, "TOP")), expected(&[("a", 2), ("b", 2)]));
    places.ask::<()>("SELECT 1");
    places.acquire("a", "OWNER alice PX 600000").unwrap();
    queue_up(&mut places, "a", "bob", "");
    let top = waits(&mut client, "TOP");
    let other = top.iter().find(|shown| shown.number("db") == 1).unwrap();
    assert_eq!((other.text("key"), other.number("waits")), ("a".into(), 1));
}

/// Of thousands of locks, those that are waited for often stay, whatever else comes by.
#[test]
fn the_busy_ones_stay_in_the_table() {
    const OTHERS: usize = 2000;
    let (_server, [mut client, mut places]) = Server::and_clients();
    let hold = |key: String| format!("LOCK.ACQUIRE {key} OWNER alice PX 600000");
    let wait = |key: String| format!("LOCK.ACQUIRE {key} OWNER bob BLOCK 0 NOTIFY ch");
    client.ask_all::<redis::Value, _>(&(0..OTHERS).map(|n| hold(format!("o{n}"))).collect::<Vec<_>>());
    client.ask::<redis::Value>(&hold("busy".into()));
    let lines = (0..OTHERS).flat_map(|n| [wait(format!("o{n}")), wait("busy".into())]);
    places.ask_all::<String, _>(&lines.collect::<Vec<_>>());
    let top = waits(&mut client, "TOP COUNT 1000");
    assert_eq!(top.len(), 128);
    assert_eq!((top[0].text("key"), top[0].number("waiters")), ("busy".into(), OTHERS as i64));
    let (count, error) = (top[0].number("waits"), top[0].number("error"));
    assert!((OTHERS as i64..=OTHERS as i64 + error).contains(&count), "{count}, {error}");
    // Page by page.
    let (mut cursor, mut all) = ("0".to_owned(), Vec::new());
    loop {
        let (next, some) = page(&mut client, &format!("TOP COUNT 50 CURSOR {cursor}"));
        all.extend(told(&some));
        if next == "0" {
            break;
        }
        cursor = next;
    }
    assert_eq!(all, told(&top));
    assert_eq!(told(&waits(&mut client, "TOP CURSOR 128")), expected(&[]));
}
