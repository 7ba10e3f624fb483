//! Examples with hundreds of holders or places, for which a scene would be too long.

use super::server::{Reply, Rules, Server, Writes};
use crate::lock::{AcquireRequest, Grant, Millis, Owner, Room};
use crate::waiting::table::LOOKS;
use crate::waiting::{Channel, WaitOptions};

const NOW: Millis = 1_700_000_000_000;

/// The client is blocked, and waits without limit.
const BLOCKED: WaitOptions = WaitOptions { timeout: Some(0), channel: None, detect: false, confirm: None };

fn name(owner: &str) -> Owner<'static> {
    Owner::new(owner.as_bytes()).unwrap().into_owned()
}

fn ask(owner: &str, lease: Millis, session: bool) -> AcquireRequest<'static> {
    AcquireRequest { session, ..AcquireRequest::new(name(owner), lease) }
}

fn read(owner: &str, lease: Millis) -> AcquireRequest<'static> {
    AcquireRequest { room: Room::ANY, ..ask(owner, lease, false) }
}

/// The limits of leases are read only when a lease is renewed, because a grace has to be computed from two clocks, and a lock may have a
/// thousand sessions.
#[test]
fn a_session_that_is_passed_over_asks_for_no_limits() {
    let rules = Rules { grace: 2000, max_lease: Some(500), ..Rules::PLAIN };
    let mut server = Server::new(1);
    let reply = server.acquire_on(rules, NOW, 0, 0, &ask("a", 300, true), &WaitOptions::default());
    assert!(matches!(reply, Reply::Granted { .. }));
    for (now, asks) in [(NOW + 10, false), (NOW + 120, true), (NOW + 130, false)] {
        let before = server.grace.clone();
        server.touch(0);
        server.run_all_due(rules, now);
        assert_eq!(server.grace != before, asks, "{}", now - NOW);
    }
}

/// Returns a server with a lock that has this many holders, all with sessions on connection 0.
fn shared_by(holders: usize, lease: Millis) -> Server {
    let mut server = Server::new(2);
    for number in 0..holders {
        let ask = AcquireRequest { session: true, ..read(&format!("reader-{number}"), lease) };
        let reply = server.acquire_on(Rules::PLAIN, NOW, 0, 0, &ask, &WaitOptions::default());
        assert!(matches!(reply, Reply::Granted { .. }), "{reply:?}");
    }
    server
}

/// Returns how many records of grants `body` goes through.
fn looks(body: impl FnOnce()) -> usize {
    LOOKS.set(0);
    body();
    LOOKS.get()
}

#[test]
fn a_command_does_not_go_through_all_sessions_of_its_lock() {
    let mut server = shared_by(300, 90_000);
    let read_alone = read("other", 100);
    let looked = looks(|| {
        server.acquire_on(Rules::PLAIN, NOW + 1, 1, 0, &read_alone, &WaitOptions::default());
        server.acquire_on(Rules::PLAIN, NOW + 2, 1, 0, &ask("writer", 100, false), &WaitOptions::default());
        server.release(Rules::PLAIN, NOW + 3, &name("other"), None, false);
    });
    assert!(looked < 10, "{looked}");
}

/// The server has reported that the connection closed, but its sessions have not all been ended yet.
#[test]
fn a_session_that_is_over_is_found_among_many_others() {
    let mut server = shared_by(300, 90_000);
    let session = AcquireRequest { session: true, ..read("other", 90_000) };
    server.acquire_on(Rules::PLAIN, NOW, 1, 0, &session, &WaitOptions::default());
    server.close(Rules::PLAIN, NOW, 1);
    let looked = looks(|| {
        server.acquire_on(Rules::PLAIN, NOW + 1, 0, 0, &ask("writer", 100, false), &WaitOptions::default());
    });
    assert!(looked < 10, "{looked}");
    let is_held = |held: &[Grant]| held.iter().any(|grant| grant.owner() == name("other"));
    let held: Vec<Grant> = server.holders(NOW + 1).iter().map(|held| held.grant.clone()).collect();
    assert!(!is_held(&held));
}

/// Commands that settle a lock do not delay the renewals of its sessions.
#[test]
fn all_sessions_are_renewed_in_time_beside_commands() {
    let mut server = shared_by(3, 300);
    for now in (NOW..NOW + 1_000).step_by(10) {
        server.acquire_on(Rules::PLAIN, now, 1, 0, &ask("writer", 100, false), &WaitOptions::default());
        server.run_all_due(Rules::PLAIN, now);
        assert_eq!(server.holders(now).len(), 3, "{}", now - NOW);
    }
}

/// All steps of a turn pay into one budget. Here, two steps use it up.
#[test]
fn a_turn_ends_when_its_steps_have_used_up_its_budget() {
    let mut server = Server::new(4);
    for (lock, conn) in (0..3).zip(1..) {
        for number in 0..1_200 {
            let brief = read(&format!("{number}"), 1);
            server.acquire_on(Rules::PLAIN, NOW, 0, lock, &brief, &WaitOptions::default());
        }
        let reply =
            server.acquire_on(Rules::PLAIN, NOW, conn, lock, &read("long", 9), &WaitOptions::default());
        assert!(matches!(reply, Reply::Granted { .. }));
        server.acquire_on(Rules::PLAIN, NOW, conn, lock, &ask("a", 9, false), &BLOCKED);
    }
    server.run_due(Rules::PLAIN, NOW + 2, Writes::Taken);
    assert_eq!([0, 1, 2].map(|lock| server.all_held_of(lock).len()), [1, 1, 1_201]);
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

/// The owner has a hundred places ahead of the upgrade, each also for another lock. The upgrade goes ahead of these places, and is granted
/// as soon as its owner is the only holder.
#[test]
fn an_upgrade_behind_many_places_of_its_owner_is_granted() {
    let rules = Rules { claim: 100, ..Rules::PLAIN };
    let mut server = Server::new(3);
    let channel = Some(Channel { address: b"a".as_slice().into(), wanted: false, start: None });
    let place = WaitOptions { channel, ..BLOCKED };
    for (conn, owner) in [(0, "a"), (1, "b")] {
        server.acquire_on(rules, NOW, conn, 0, &read(owner, 1_000), &WaitOptions::default());
    }
    server.acquire_on(rules, NOW, 2, 1, &ask("other", 1_000, false), &WaitOptions::default());
    for _ in 0..100 {
        assert_eq!(server.acquire_all(rules, NOW, 0, &[0, 1], &read("a", 1_000), &place), Reply::Queued);
    }
    assert_eq!(server.acquire_on(rules, NOW, 0, 0, &ask("a", 1_000, false), &place), Reply::Queued);
    server.release(rules, NOW, &name("b"), None, false);
    for _ in 0..10 {
        server.run_due(rules, NOW, Writes::Taken);
    }
    assert_eq!(server.held(NOW).unwrap().grant.room(), Room::ONE);
    assert!(server.next_due().is_none_or(|at| at > NOW), "something is due for ever");
}

/// Each turn does only one piece of work here, and something is always due at once.
#[test]
fn a_turn_goes_on_where_the_last_one_stopped() {
    let rules = Rules { slow: true, ..Rules::PLAIN };
    let mut server = Server::new(4);
    let blocked = |timeout| WaitOptions { timeout: Some(timeout), ..BLOCKED };
    for (conn, lock, timeout) in [(1, 0, 3), (2, 1, 6), (3, 2, 0)] {
        server.acquire_on(rules, NOW, 0, lock, &ask("holder", 1_000, false), &WaitOptions::default());
        server.acquire_on(rules, NOW, conn, lock, &ask("a", 1_000, false), &blocked(timeout));
    }
    for (now, conn) in [(NOW + 4, 1), (NOW + 7, 2)] {
        let mut told = Vec::new();
        // There are six kinds of work: one of the first six turns ends the wait, and one of the next six answers the client.
        for _ in 0..12 {
            server.touch(2);
            told.extend(server.run_due(rules, now, Writes::Taken));
        }
        assert_eq!(told, [(conn, Reply::Null)]);
    }
}
