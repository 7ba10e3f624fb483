//! Examples of clients that go away before the server reports this, or before all their grants have been taken back.

use super::{BLOCKED, NOW, ask, granted, name, read};
use crate::lock::{AcquireRequest, Deadline};
use crate::waiting::WaitOptions;
use crate::waiting::tests::server::{Reply, Rules, Server, Writes};

/// More clients got the lock than one step can take it back from, and all of them went away before they were told.
#[test]
fn all_that_was_granted_to_those_who_are_gone_is_taken_back_in_the_end() {
    let mut server = Server::new(5);
    server.acquire(Rules::PLAIN, NOW, 0, &ask("holder", 1_000, false), &WaitOptions::default());
    for (conn, owner) in (1..).zip(["a", "b", "c", "d"]) {
        assert_eq!(server.acquire(Rules::PLAIN, NOW, conn, &read(owner, 1_000), &BLOCKED), Reply::Waits);
    }
    server.release(Rules::PLAIN, NOW, &name("holder"), None, false);
    assert_eq!(server.all_held().len(), 4);
    (1..5).for_each(|conn| server.close(Rules::PLAIN, NOW, conn));
    let slow = Rules { slow: true, ..Rules::PLAIN };
    assert_eq!(server.run_all_due(slow, NOW), []);
    assert_eq!(server.all_held().len(), 0);
}

/// The server was frozen until after the end of a session's lease, and the session's connection has closed. Some servers report the closed
/// connection only after due work. Even then, the session does not outlive the lease.
#[test]
fn a_session_whose_connection_has_closed_unheard_outlives_no_freeze() {
    for is_open in [true, false] {
        let rules = Rules::PLAIN;
        let mut server = Server::new(2);
        server.acquire(rules, NOW, 0, &ask("a", 30, true), &WaitOptions::default());
        if !is_open {
            server.disconnect(0);
        }
        let reply = server.acquire(rules, NOW + 50, 1, &ask("b", 30, false), &WaitOptions::default());
        assert_eq!(matches!(reply, Reply::Granted { .. }), !is_open, "{reply:?}");
    }
}

/// In one step, an owner releases a grant whose session's connection has closed, and the grant goes to another, waiting client of the
/// owner. This client really has the grant that it is told of.
#[test]
fn a_release_gives_back_no_grant_that_its_owner_is_given_by_that_step() {
    let rules = Rules::PLAIN;
    let mut server = Server::new(3);
    let session = AcquireRequest { session: true, ..read("a", 1_000) };
    server.acquire(rules, NOW, 0, &session, &WaitOptions::default());
    server.acquire(rules, NOW, 1, &read("b", 30), &WaitOptions::default());
    assert_eq!(server.acquire(rules, NOW, 2, &ask("a", 1_000, false), &BLOCKED), Reply::Waits);
    server.close(rules, NOW, 0);
    let now = NOW + 50;
    assert_eq!(server.release(rules, now, &name("a"), None, false), None);
    assert_eq!(granted(&server.run_all_due(rules, now)), [2]);
    assert_eq!(server.held(now).map(|held| held.grant.owner().into_owned()), Some(name("a")));
}

/// Two clients of one owner wait for one hold. The second is told of the hold, and the first goes away before it is told: the hold is then
/// the second client's.
#[test]
fn a_hold_that_one_client_has_been_told_of_is_not_taken_back_with_another() {
    let rules = Rules::PLAIN;
    let mut server = Server::new(3);
    server.acquire(rules, NOW, 0, &ask("holder", 1_000, false), &WaitOptions::default());
    for conn in [1, 2] {
        let once = AcquireRequest { once: true, ..ask("a", 1_000, false) };
        assert_eq!(server.acquire(rules, NOW, conn, &once, &BLOCKED), Reply::Waits);
    }
    server.release(rules, NOW, &name("holder"), None, false);
    // An operator's `CLIENT UNBLOCK` makes the server tell the client of its grant.
    assert_eq!(granted(&server.unblock(rules, NOW, 2, false)), [2]);
    server.close(rules, NOW, 1);
    assert_eq!(server.run_all_due(rules, NOW), []);
    assert_eq!(server.held(NOW).map(|held| held.grant.holds()), Some(1));
}

/// Two clients of one owner have been granted the lock, the owner releases one hold, and the first client goes away before it is told: the
/// other hold is taken back, and the second client is told a lease of 0.
#[test]
fn a_client_is_told_of_no_grant_whose_last_hold_is_to_be_taken_back() {
    let rules = Rules::PLAIN;
    let mut server = Server::new(3);
    server.acquire(rules, NOW, 0, &ask("holder", 1_000, false), &WaitOptions::default());
    for conn in [1, 2] {
        assert_eq!(server.acquire(rules, NOW, conn, &ask("a", 1_000, false), &BLOCKED), Reply::Waits);
    }
    server.break_(rules, NOW, None);
    assert_eq!(server.release(rules, NOW, &name("a"), None, false), Some(1));
    server.close(rules, NOW, 1);
    let replies = server.answer(rules, NOW);
    let is_over =
        |reply: &Reply| matches!(reply, Reply::Granted { deadline, .. } if *deadline == Deadline::At(0));
    assert!(matches!(&replies[..], [(2, reply)] if is_over(reply)), "{replies:?}");
    assert_eq!(server.run_all_due(rules, NOW), []);
    assert_eq!(server.all_held().len(), 0);
}

/// A client has been granted two locks together, and one of them is broken before the client is told: the client is told a lease of 0, and
/// has neither lock.
#[test]
fn a_client_that_is_told_of_no_grant_keeps_none() {
    let rules = Rules::PLAIN;
    let mut server = Server::new(2);
    server.acquire(rules, NOW, 0, &ask("holder", 1_000, false), &WaitOptions::default());
    let both = ask("a", 1_000, false);
    assert_eq!(server.acquire_all(rules, NOW, 1, &[0, 1], &both, &BLOCKED), Reply::Waits);
    server.release(rules, NOW, &name("holder"), None, false);
    let late = Rules { late: true, ..rules };
    assert_eq!(server.run_due(Rules { slow: true, ..late }, NOW, Writes::Taken), []);
    assert_eq!(server.holders_of(1, NOW).len(), 1);
    assert_eq!(server.break_on(rules, NOW, 0, None), 1);
    let replies = server.answer(rules, NOW);
    let is_over = |reply: &Reply| matches!(reply, Reply::All(_, Deadline::At(0)));
    assert!(matches!(&replies[..], [(1, reply)] if is_over(reply)), "{replies:?}");
    assert_eq!(server.run_all_due(rules, NOW), []);
    assert_eq!((server.all_held().len(), server.holders_of(1, NOW).len()), (0, 0));
}

/// The server closes a waiter's connection in the turn in which the waiter is told of its grant. What else depends on this connection ends,
/// too.
#[test]
fn a_connection_that_is_lost_with_its_answer_takes_its_other_sessions_with_it() {
    let rules = Rules::PLAIN;
    let mut server = Server::new(2);
    server.acquire(rules, NOW, 0, &ask("holder", 1_000, false), &WaitOptions::default());
    server.acquire_on(rules, NOW, 1, 1, &ask("a", 1_000, true), &WaitOptions::default());
    assert_eq!(server.acquire(rules, NOW, 1, &ask("a", 1_000, false), &BLOCKED), Reply::Waits);
    server.release(rules, NOW, &name("holder"), None, false);
    server.doom(1);
    assert_eq!(server.run_all_due(rules, NOW), []);
    assert_eq!((server.all_held().len(), server.holders_of(1, NOW).len()), (0, 0));
}

/// A waiter is granted the lock and goes away before it is told. In the same turn, the key gets another name.
#[test]
fn a_hold_that_nobody_knows_of_is_taken_back_under_the_new_name_of_its_key() {
    let rules = Rules::PLAIN;
    let mut server = Server::new(2);
    server.acquire(rules, NOW, 0, &ask("holder", 1_000, false), &WaitOptions::default());
    assert_eq!(server.acquire(rules, NOW, 1, &ask("a", 1_000, false), &BLOCKED), Reply::Waits);
    server.release(rules, NOW, &name("holder"), None, false);
    server.close(rules, NOW, 1);
    server.rename(NOW, 0, 1);
    server.run_all_due(rules, NOW);
    assert_eq!((server.all_held().len(), server.holders_of(1, NOW).len()), (0, 0));
}
