//! Examples of owners that wait for a lock that they already hold, with the same room or less.

use super::{BLOCKED, NOW, ask, granted, name, place, read};
use crate::lock::{AcquireRequest, Room};
use crate::waiting::WaitOptions;
use crate::waiting::tests::server::{Queued, Reply, Rules, Server, Writes};

/// Each step serves only one of an owner's waits here, but all waits are served in the end.
#[test]
fn all_waits_of_an_owner_re_enter_in_the_end() {
    let rules = Rules { slow: true, ..Rules::PLAIN };
    let mut server = Server::new(4);
    server.acquire(rules, NOW, 0, &ask("holder", 100, false), &WaitOptions::default());
    for conn in 1..4 {
        assert_eq!(server.acquire(rules, NOW, conn, &ask("a", 100, false), &BLOCKED), Reply::Waits);
    }
    server.release(rules, NOW, &name("holder"), None, false);
    assert_eq!(granted(&server.run_all_due(rules, NOW)), [1, 2, 3]);
    assert_eq!(server.held(NOW).unwrap().grant.holds(), 3);
}

/// The first waiter also waits for another lock. The next waiter asks for an upgrade, which is possible when its owner is the only holder.
#[test]
fn an_upgrade_behind_one_that_waits_for_several_is_not_kept_up() {
    let rules = Rules::PLAIN;
    let mut server = Server::new(4);
    for (conn, owner) in [(0, "a"), (1, "b")] {
        server.acquire(rules, NOW, conn, &read(owner, 100), &WaitOptions::default());
    }
    server.acquire_on(rules, NOW, 1, 1, &ask("b", 100, false), &WaitOptions::default());
    assert_eq!(server.acquire_all(rules, NOW, 2, &[0, 1], &ask("a", 100, false), &BLOCKED), Reply::Waits);
    assert_eq!(server.acquire(rules, NOW, 3, &ask("a", 100, false), &BLOCKED), Reply::Waits);
    server.release(rules, NOW, &name("b"), None, false);
    assert_eq!(granted(&server.run_due(rules, NOW, Writes::Taken)), [3]);
}

/// The owner has a hundred places ahead of the upgrade, each also for another lock. The upgrade goes ahead of these places, and is granted
/// as soon as its owner is the only holder.
#[test]
fn an_upgrade_behind_many_places_of_its_owner_is_granted() {
    let rules = Rules { claim: 100, ..Rules::PLAIN };
    let mut server = Server::new(3);
    let place = place("a", false);
    for (conn, owner) in [(0, "a"), (1, "b")] {
        server.acquire(rules, NOW, conn, &read(owner, 1_000), &WaitOptions::default());
    }
    server.acquire_on(rules, NOW, 2, 1, &ask("other", 1_000, false), &WaitOptions::default());
    for _ in 0..100 {
        assert_eq!(server.acquire_all(rules, NOW, 0, &[0, 1], &read("a", 1_000), &place), Reply::Queued);
    }
    assert_eq!(server.acquire(rules, NOW, 0, &ask("a", 1_000, false), &place), Reply::Queued);
    server.release(rules, NOW, &name("b"), None, false);
    for _ in 0..10 {
        server.run_due(rules, NOW, Writes::Taken);
    }
    assert_eq!(server.held(NOW).unwrap().grant.room(), Room::ONE);
    assert!(server.next_due().is_none_or(|at| at > NOW), "something is due for ever");
}

/// Two requests of an owner for an upgrade are ahead of the queue, and are granted as soon as the owner is the only holder. The owner's
/// third wait is behind another owner, which waits for the first owner.
#[test]
fn a_wait_behind_two_upgrades_of_its_owner_re_enters_with_them() {
    let rules = Rules::PLAIN;
    let mut server = Server::new(7);
    server.acquire(rules, NOW, 0, &ask("first", 100, false), &WaitOptions::default());
    for (conn, ask) in [(1, read("b", 100)), (2, read("a", 100)), (3, ask("c", 100, false))] {
        assert_eq!(server.acquire(rules, NOW, conn, &ask, &BLOCKED), Reply::Waits);
    }
    for conn in 4..7 {
        assert_eq!(server.acquire(rules, NOW, conn, &ask("a", 100, false), &BLOCKED), Reply::Waits);
    }
    server.release(rules, NOW, &name("first"), None, false);
    assert_eq!(granted(&server.run_all_due(rules, NOW)), [1, 2]);
    server.release(rules, NOW, &name("b"), None, false);
    assert_eq!(granted(&server.run_all_due(rules, NOW)), [4, 5, 6]);
    assert_eq!(server.held(NOW).map(|held| held.grant.holds()), Some(4));
}

/// A place for two locks was ahead of the queue, because it asked for an upgrade. Then its owner asks for the locks again as a reader.
#[test]
fn a_place_for_several_locks_that_asks_for_more_room_stands_in_front_no_more() {
    let rules = Rules { claim: 100, ..Rules::PLAIN };
    let mut server = Server::new(4);
    let place = place("a", false);
    for (conn, owner) in [(0, "a"), (1, "b")] {
        server.acquire(rules, NOW, conn, &read(owner, 1_000), &WaitOptions::default());
    }
    server.acquire_on(rules, NOW, 1, 1, &ask("other", 1_000, false), &WaitOptions::default());
    assert_eq!(server.acquire(rules, NOW, 2, &ask("writer", 1_000, false), &BLOCKED), Reply::Waits);
    let once = |ask| AcquireRequest { once: true, ..ask };
    let (alone, reader) = (once(ask("a", 1_000, false)), once(read("a", 1_000)));
    assert_eq!(server.acquire_all(rules, NOW, 0, &[0, 1], &alone, &place), Reply::Queued);
    assert_eq!(server.next_in(0), Some(Queued::Notified(name("a"))));
    assert_eq!(server.acquire_all(rules, NOW, 0, &[0, 1], &reader, &place), Reply::Queued);
    server.run_all_due(rules, NOW);
    assert_eq!(server.next_in(0), Some(Queued::Blocked(2)));
}
