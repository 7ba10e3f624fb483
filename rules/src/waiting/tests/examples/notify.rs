//! Examples of places, and of holders that get messages about their grants.

use std::num::NonZeroU64;

use super::{BLOCKED, NOW, ask, name, place, read};
use crate::lock::{AcquireRequest, Owner};
use crate::waiting::tests::server::{Reply, Rules, Server, Writes};
use crate::waiting::{Message, MessageKind, WaitOptions};

/// Returns the options of a place whose work begins at the message (`START`), if there is a number.
fn starting(start: Option<NonZeroU64>) -> WaitOptions {
    let mut options = place("a", false);
    options.channel.iter_mut().for_each(|channel| channel.start = start);
    options
}

/// Returns the holders that have been told that somebody waits.
fn wanted(server: &mut Server) -> Vec<Owner<'static>> {
    server.run_all_due(Rules::PLAIN, NOW);
    let wanted = server.messages.drain(..).filter(|message| matches!(message.kind, MessageKind::Wanted(_)));
    wanted.map(|message| message.owner).collect()
}

/// Holders are told once for each queue that forms behind them.
#[test]
fn all_holders_hear_that_somebody_waits() {
    let rules = Rules::PLAIN;
    let mut server = Server::new(5);
    for (conn, owner) in (0..).zip(["a", "b", "c"]) {
        let reply = server.acquire(rules, NOW, conn, &read(owner, 1_000), &place(owner, owner != "b"));
        assert!(matches!(reply, Reply::Granted { .. }), "{reply:?}");
    }
    for _ in 0..2 {
        for (conn, told) in [(3, vec![name("a"), name("c")]), (4, Vec::new())] {
            assert_eq!(server.acquire(rules, NOW, conn, &ask("writer", 100, false), &BLOCKED), Reply::Waits);
            assert_eq!(wanted(&mut server), told);
        }
        // One leaves, and comes again: the queue has not been empty since.
        assert_eq!(server.unblock(rules, NOW, 3, true), [(3, Reply::Unblocked)]);
        assert_eq!(server.acquire(rules, NOW, 3, &ask("writer", 100, false), &BLOCKED), Reply::Waits);
        assert_eq!(wanted(&mut server), []);
        for conn in [3, 4] {
            assert_eq!(server.unblock(rules, NOW, conn, true), [(conn, Reply::Unblocked)]);
        }
    }
}

/// Returns the owners that have been told of a grant.
fn granted(server: &mut Server, rules: Rules) -> Vec<Owner<'static>> {
    server.run_all_due(rules, NOW);
    let granted = server.messages.drain(..).filter(|message| matches!(message.kind, MessageKind::Granted(_)));
    granted.map(|message| message.owner).collect()
}

/// Returns a server with a held lock, in whose queue each of these owners has a place.
fn held_and_waited_for(rules: Rules, owners: &[&str]) -> Server {
    let mut server = Server::new(4);
    server.acquire(rules, NOW, 0, &ask("holder", 1_000, false), &WaitOptions::default());
    for owner in owners {
        let reply = server.acquire(rules, NOW, 1, &ask(owner, 1_000, false), &place(owner, false));
        assert_eq!(reply, Reply::Queued);
    }
    server
}

#[test]
fn a_place_is_given_up_before_its_grant_and_after() {
    let rules = Rules { claim: 100, ..Rules::PLAIN };
    let mut server = held_and_waited_for(rules, &["a", "b", "c"]);
    assert!(server.leave(rules, NOW, &name("a")) && !server.leave(rules, NOW, &name("a")));
    server.release(rules, NOW, &name("holder"), None, false);
    assert_eq!(granted(&mut server, rules), [name("b")]);
    assert!(server.leave(rules, NOW, &name("b")));
    assert_eq!(granted(&mut server, rules), [name("c")]);
}

/// If places already have the most unclaimed grants, the owner's other place gets the lock as soon as the first grant is claimed.
#[test]
fn a_place_that_was_put_off_is_granted_once_another_is_claimed() {
    let rules = Rules { claim: 100, slow: true, ..Rules::PLAIN };
    let mut server = held_and_waited_for(rules, &["a", "a"]);
    server.release(rules, NOW, &name("holder"), None, false);
    assert_eq!(granted(&mut server, rules), [name("a")]);
    let claim = AcquireRequest { once: true, ..ask("a", 1_000, false) };
    let reply = server.acquire(rules, NOW, 1, &claim, &WaitOptions::default());
    assert!(matches!(reply, Reply::Granted { .. }), "{reply:?}");
    assert_eq!(granted(&mut server, rules), [name("a")]);
}

/// The owner has been told of a hold that a blocked client shared, so the hold is not taken back when this client goes away.
#[test]
fn a_place_that_has_started_keeps_a_hold_that_it_shares() {
    let rules = Rules { claim: 100, late: true, ..Rules::PLAIN };
    let mut server = held_and_waited_for(rules, &[]);
    let once = AcquireRequest { once: true, ..ask("a", 1_000, false) };
    assert_eq!(server.acquire(rules, NOW, 2, &once, &BLOCKED), Reply::Waits);
    let starts = starting(NonZeroU64::new(7));
    assert_eq!(server.acquire(rules, NOW, 1, &once, &starts), Reply::Queued);
    server.release(rules, NOW, &name("holder"), None, false);
    server.run_due(rules, NOW, Writes::Taken);
    let started = |message: &Message| matches!(message.kind, MessageKind::Start { lease: 100, .. });
    assert!(server.messages.iter().any(started), "{:?}", server.messages);
    server.close(rules, NOW, 2);
    server.free_done(rules, NOW);
    server.run_all_due(rules, NOW);
    assert_eq!(server.held(NOW).map(|held| held.grant.holds()), Some(1));
    server.check();
}

/// A key is deleted after its grant, and before the message about the grant, so the owner hears that it has to ask again.
#[test]
fn a_place_is_told_of_no_grant_that_is_over() {
    let rules = Rules { claim: 100, ..Rules::PLAIN };
    for start in [None, NonZeroU64::new(7)] {
        let mut server = held_and_waited_for(rules, &[]);
        server.acquire(rules, NOW, 1, &ask("a", 1_000, false), &starting(start));
        server.acquire(rules, NOW, 1, &ask("b", 1_000, false), &place("b", false));
        server.release(rules, NOW, &name("holder"), None, false);
        server.delete(0);
        server.answer(rules, NOW);
        server.run_all_due(rules, NOW);
        let fence = server.fence_of(0, &name("b"), NOW).unwrap();
        let told: Vec<_> =
            server.messages.iter().map(|message| (message.kind, message.owner.clone())).collect();
        assert_eq!(told, [(MessageKind::Gone, name("a")), (MessageKind::Granted(fence), name("b"))]);
    }
}

/// The grant that a place is to upgrade ends with its session, in the turn of the upgrade. So the owner hears that it has to ask again.
#[test]
fn a_place_is_told_of_no_grant_that_ends_with_a_session() {
    let rules = Rules { claim: 100, ..Rules::PLAIN };
    for start in [None, NonZeroU64::new(7)] {
        let mut server = Server::new(3);
        let session = AcquireRequest { session: true, ..read("a", 1_000) };
        server.acquire(rules, NOW, 0, &session, &WaitOptions::default());
        server.acquire(rules, NOW, 2, &read("b", 1_000), &WaitOptions::default());
        let upgrade = AcquireRequest { once: true, ..ask("a", 1_000, false) };
        assert_eq!(server.acquire(rules, NOW, 1, &upgrade, &starting(start)), Reply::Queued);
        server.release(rules, NOW, &name("b"), None, false);
        server.close(rules, NOW, 0);
        server.answer(rules, NOW);
        server.run_all_due(rules, NOW);
        let told: Vec<_> = server.messages.iter().map(|message| message.kind).collect();
        assert_eq!((told, server.all_held().len()), (vec![MessageKind::Gone], 0));
    }
}

/// Somebody shortens a lease before the message about it is sent, whether or not a timer looks at the lock in between.
#[test]
fn a_message_says_no_longer_lease_than_there_is() {
    let rules = Rules { claim: 100, ..Rules::PLAIN };
    for looks in [false, true] {
        let mut server = held_and_waited_for(rules, &[]);
        server.acquire(rules, NOW, 1, &ask("a", 1_000, false), &starting(NonZeroU64::new(7)));
        server.release(rules, NOW, &name("holder"), None, false);
        server.cut(NOW + 40);
        if !looks {
            server.answer(rules, NOW);
        }
        server.run_all_due(rules, NOW);
        let is_short = |message: &Message| matches!(message.kind, MessageKind::Start { lease: 40, .. });
        assert!(matches!(&server.messages[..], [message] if is_short(message)), "{:?}", server.messages);
    }
}

/// If the grant ends, its time limit for a claim is dropped.
#[test]
fn nothing_is_left_of_a_place_whose_grant_has_been_broken() {
    let rules = Rules { claim: 100, ..Rules::PLAIN };
    let mut server = held_and_waited_for(rules, &["a"]);
    server.release(rules, NOW, &name("holder"), None, false);
    assert_eq!(granted(&mut server, rules), [name("a")]);
    assert_eq!(server.break_(rules, NOW, None), 1);
    server.run_all_due(rules, NOW);
    assert_eq!(server.next_due(), None);
}
