//! Counts the records that a step goes through: a step must not go through all sessions or grants of a lock.

use super::*;
use crate::lock::Grant;
use crate::waiting::table::LOOKS;

/// Returns a server with a lock that has this many holders, all with sessions on connection 0.
fn shared_by(holders: usize, lease: Millis) -> Server {
    let mut server = Server::new(2);
    for number in 0..holders {
        let ask = AcquireRequest { session: true, ..read(&format!("reader-{number}"), lease) };
        let reply = server.acquire(Rules::PLAIN, NOW, 0, &ask, &WaitOptions::default());
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
        server.acquire(Rules::PLAIN, NOW + 1, 1, &read_alone, &WaitOptions::default());
        server.acquire(Rules::PLAIN, NOW + 2, 1, &ask("writer", 100, false), &WaitOptions::default());
        server.release(Rules::PLAIN, NOW + 3, &name("other"), None, false);
    });
    assert!(looked < 10, "{looked}");
}

/// The server has reported that the connection closed, but its sessions have not all been ended yet.
#[test]
fn a_session_that_is_over_is_found_among_many_others() {
    let mut server = shared_by(300, 90_000);
    let session = AcquireRequest { session: true, ..read("other", 90_000) };
    server.acquire(Rules::PLAIN, NOW, 1, &session, &WaitOptions::default());
    server.close(Rules::PLAIN, NOW, 1);
    let looked = looks(|| {
        server.acquire(Rules::PLAIN, NOW + 1, 0, &ask("writer", 100, false), &WaitOptions::default());
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
        server.acquire(Rules::PLAIN, now, 1, &ask("writer", 100, false), &WaitOptions::default());
        server.run_all_due(Rules::PLAIN, now);
        assert_eq!(server.holders(now).len(), 3, "{}", now - NOW);
    }
}

/// The next steps end the lapsed grants that are left. Until then the lock counts as taken, even for requests that would fit.
#[test]
fn nobody_joins_a_lock_of_which_not_all_that_is_over_has_ended() {
    let rules = Rules { slow: true, ..Rules::PLAIN };
    let mut server = Server::new(2);
    for owner in ["a", "b", "c"] {
        server.acquire(rules, NOW, 0, &read(owner, 100), &WaitOptions::default());
    }
    server.acquire(rules, NOW, 0, &read("stays", 1_000), &WaitOptions::default());
    let now = NOW + 101;
    let reader = read("new", 100);
    for left in [3, 2] {
        let reply = server.acquire(rules, now, 1, &reader, &WaitOptions::default());
        assert_eq!((reply, server.all_held().len()), (Reply::Null, left));
    }
    let reply = server.acquire(rules, now, 1, &reader, &WaitOptions::default());
    assert!(matches!(reply, Reply::Granted { .. }), "{reply:?}");
    assert_eq!(server.all_held().len(), 2);
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
