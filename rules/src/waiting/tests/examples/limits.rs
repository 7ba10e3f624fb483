//! Examples of limits: how many locks may depend on a connection, how many clients may wait, and how far `DETECT` searches.

use super::{BLOCKED, NOW, ask, place, read};
use crate::lock::AcquireRequest;
use crate::waiting::WaitOptions;
use crate::waiting::tests::server::{Conn, Lock, Reply, Rules, Server};

#[test]
fn no_more_places_hang_on_a_connection_than_may() {
    let rules = Rules { most_places: Some(2), ..Rules::PLAIN };
    let mut server = Server::new(3);
    for lock in 0..3 {
        server.acquire_on(rules, NOW, 2, lock, &ask("holder", 1_000, false), &WaitOptions::default());
    }
    let once = AcquireRequest { once: true, ..ask("a", 100, false) };
    let mut take =
        |conn: Conn, lock: Lock| server.acquire_on(rules, NOW, conn, lock, &once, &place("a", false));
    assert_eq!([0, 1, 2].map(|lock| take(0, lock)), [Reply::Queued, Reply::Queued, Reply::TooMany]);
    // A place moves to the connection that asks for it again, and no longer counts for the other connection.
    assert_eq!(take(0, 0), Reply::Queued);
    assert_eq!(take(1, 0), Reply::Queued);
    assert_eq!(take(0, 2), Reply::Queued);
    assert_eq!(take(0, 0), Reply::TooMany);
}

#[test]
fn no_more_sessions_hang_on_a_connection_than_may() {
    let rules = Rules { most_places: Some(2), ..Rules::PLAIN };
    let mut server = Server::new(2);
    let mut keep = |conn: Conn, lock: Lock| {
        let reply =
            server.acquire_on(rules, NOW, conn, lock, &ask("a", 1_000, true), &WaitOptions::default());
        assert!(matches!(reply, Reply::Granted { .. } | Reply::TooMany), "{reply:?}");
        reply != Reply::TooMany
    };
    assert_eq!([0, 1, 2].map(|lock| keep(0, lock)), [true, true, false]);
    // A session that the connection already has does not count twice.
    assert!(keep(0, 0) && keep(1, 0) && keep(0, 2) && !keep(0, 0));
}

#[test]
fn no_more_wait_for_a_lock_than_may() {
    let rules = Rules { most_waiters: Some(2), ..Rules::PLAIN };
    let mut server = Server::new(6);
    server.acquire(rules, NOW, 0, &ask("holder", 1_000, false), &WaitOptions::default());
    server.acquire_on(rules, NOW, 0, 1, &ask("holder", 1_000, false), &WaitOptions::default());
    let one = [1, 2, 3].map(|conn| server.acquire(rules, NOW, conn, &ask("a", 100, false), &BLOCKED));
    assert_eq!(one, [Reply::Waits, Reply::Waits, Reply::TooMany]);
    let several = server.acquire_all(rules, NOW, 3, &[1, 0], &ask("a", 100, false), &BLOCKED);
    assert_eq!(several, Reply::TooMany);
    let other = [3, 4, 5].map(|conn| server.acquire_on(rules, NOW, conn, 1, &ask("a", 100, false), &BLOCKED));
    assert_eq!(other, [Reply::Waits, Reply::Waits, Reply::TooMany]);
}

/// Whether `DETECT` finds a cycle through the last holder of the second lock, if both locks have this many holders.
fn is_found(holders: u32) -> bool {
    let rules = Rules::PLAIN;
    let mut server = Server::new(3);
    for lock in [0, 1] {
        for number in 0..holders {
            let reader = read(&format!("{lock} {number}"), 1_000);
            server.acquire_on(rules, NOW, 0, lock, &reader, &WaitOptions::default());
        }
    }
    server.acquire_on(rules, NOW, 1, 2, &ask("a", 1_000, false), &WaitOptions::default());
    let last = ask(&format!("1 {}", holders - 1), 1_000, false);
    assert_eq!(server.acquire_on(rules, NOW, 2, 2, &last, &BLOCKED), Reply::Waits);
    let detect = WaitOptions { detect: true, ..BLOCKED };
    match server.acquire_all(rules, NOW, 1, &[0, 1], &ask("a", 1_000, false), &detect) {
        Reply::Cycle(_) => true,
        reply => {
            assert_eq!(reply, Reply::Waits);
            false
        }
    }
}

/// The bound is a thousand holders, waiters and locks. Waits beyond the bound count as able to end.
#[test]
fn detect_looks_no_further_than_its_bound() {
    assert!(is_found(10) && is_found(499));
    assert!(!is_found(501) && !is_found(1_200));
}
