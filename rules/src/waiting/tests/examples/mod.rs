//! Examples that take too long for a small world, and are too rare in random histories. This file has sessions and leases.

mod departures;
mod limits;
mod looks;
mod notify;
mod reentry;

use std::collections::BTreeSet;

use super::server::{Conn, Reply, Rules, Server, Writes};
use crate::lock::{AcquireRequest, Deadline, Millis, Owner, Room};
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

/// Returns the options of a place that waits without limit. With `wanted`, the holder is told when others wait.
fn place(channel: &str, wanted: bool) -> WaitOptions {
    let channel = Some(Channel { address: channel.as_bytes().into(), wanted, start: None });
    WaitOptions { channel, ..BLOCKED }
}

/// Returns the connections that were told of a grant.
fn granted(told: &[(Conn, Reply)]) -> Vec<Conn> {
    let granted = told.iter().filter(|(_, reply)| matches!(reply, Reply::Granted { .. } | Reply::All(..)));
    granted.map(|(conn, _)| *conn).collect()
}

/// A server that was away for more than a second may have been replaced, and its successor may have granted the lock. After a shorter
/// freeze, a session still gets its lease back.
#[test]
fn a_server_that_was_away_gives_no_session_its_lease_back() {
    let rules = Rules { grace: 2000, max_lease: Some(500), ..Rules::PLAIN };
    for (away, is_held) in [(1000, true), (1001, false)] {
        let mut server = Server::new(1);
        let reply = server.acquire(rules, NOW, 0, &ask("a", 300, true), &WaitOptions::default());
        assert!(matches!(reply, Reply::Granted { .. }));
        server.run_due(rules, NOW + away, Writes::Taken);
        assert_eq!(server.held(NOW + away).is_some(), is_held);
    }
}

/// The limits of leases are read only when a lease is renewed, because a grace has to be computed from two clocks, and a lock may have a
/// thousand sessions.
#[test]
fn a_session_that_is_passed_over_asks_for_no_limits() {
    let rules = Rules { grace: 2000, max_lease: Some(500), ..Rules::PLAIN };
    let mut server = Server::new(1);
    let reply = server.acquire(rules, NOW, 0, &ask("a", 300, true), &WaitOptions::default());
    assert!(matches!(reply, Reply::Granted { .. }));
    for (now, asks) in [(NOW + 10, false), (NOW + 120, true), (NOW + 130, false)] {
        let before = server.grace.clone();
        server.touch(0);
        server.run_all_due(rules, now);
        assert_eq!(server.grace != before, asks, "{}", now - NOW);
    }
}

/// Places of a closed connection get no grant, even before they have been removed.
#[test]
fn a_place_of_a_closed_connection_gets_nothing() {
    let rules = Rules { claim: 100, ..Rules::PLAIN };
    let mut server = Server::new(3);
    server.acquire(rules, NOW, 0, &ask("holder", 100, false), &WaitOptions::default());
    for (conn, name) in [(1, "gone"), (1, "gone too"), (2, "next")] as [(Conn, _); 3] {
        let place = place(name, false);
        assert_eq!(server.acquire(rules, NOW, conn, &ask(name, 100, false), &place), Reply::Queued);
    }
    server.close(rules, NOW, 1);
    assert_eq!(server.release(rules, NOW, &name("holder"), None, false), Some(0));
    assert_eq!(server.held(NOW).unwrap().grant.owner(), name("next"));
    server.run_due(rules, NOW, Writes::Taken);
    let words: Vec<_> = server.messages.iter().map(|message| message.owner.clone()).collect();
    assert_eq!(words, [name("next")]);
    assert_eq!(server.queued(), []);
}

/// Another client of the waiter's owner has a session. The server freezes between the grant and the answer, and then answers before it does
/// other work. From then on the waiter's connection keeps the grant alive, as without the freeze.
#[test]
fn a_waiter_that_is_told_after_a_standstill_takes_the_session_over() {
    let rules = Rules::PLAIN;
    // If another holder's lease goes on, the key still exists; otherwise the server has deleted it.
    for other_lease in [30, 1_000] {
        for first_closes in [false, true] {
            let mut server = Server::new(4);
            let read =
                |owner, lease, session| AcquireRequest { room: Room::ANY, ..ask(owner, lease, session) };
            server.acquire(rules, NOW, 0, &read("a", 30, true), &WaitOptions::default());
            server.acquire(rules, NOW, 1, &read("other", other_lease, false), &WaitOptions::default());
            server.acquire(rules, NOW, 1, &read("last", 30, false), &WaitOptions::default());
            let pair = AcquireRequest { room: Room::limit(2).unwrap(), ..ask("a", 60, true) };
            assert_eq!(server.acquire(rules, NOW, 2, &pair, &BLOCKED), Reply::Waits);
            server.release(rules, NOW, &name("last"), None, false);
            let fence = server.held(NOW).unwrap().grant.fence();
            let now = NOW + 100;
            let told = server.answer(rules, now);
            assert!(matches!(told[..], [(2, Reply::Granted { .. })]), "{told:?}");
            server.close(rules, now, if first_closes { 0 } else { 2 });
            server.run_due(rules, now, Writes::Taken);
            let held: Vec<_> = server.holders(now).iter().map(|held| held.grant.fence()).collect();
            assert_eq!(
                (held.contains(&fence), server.session(fence)),
                if first_closes { (true, Some(2)) } else { (false, None) }
            );
        }
    }
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

/// The time of two waits was up during a freeze. The lock of the second was free before, so it gets the lock, although the looks at two
/// other locks come first.
#[test]
fn a_wait_whose_time_is_up_may_still_get_its_lock() {
    let rules = Rules::PLAIN;
    let mut server = Server::new(5);
    for (lock, lease) in [(2, 1), (0, 2), (1, 3)] {
        server.acquire_on(rules, NOW, 0, lock, &ask("holder", lease, false), &WaitOptions::default());
    }
    for (conn, lock, owner, timeout) in [(1, 2, "a", 0), (2, 2, "b", 1), (3, 0, "a", 0), (4, 1, "a", 4)] {
        let options = WaitOptions { timeout: Some(timeout), ..BLOCKED };
        let reply = server.acquire_on(rules, NOW, conn, lock, &ask(owner, 1_000, false), &options);
        assert_eq!(reply, Reply::Waits);
    }
    let told = server.run_all_due(rules, NOW + 5);
    assert!(told.contains(&(2, Reply::Null)), "{told:?}");
    assert_eq!(granted(&told).into_iter().collect::<BTreeSet<_>>(), BTreeSet::from([1, 3, 4]), "{told:?}");
}

/// The lease ended during a freeze, and nobody has looked at the lock since. Either the database was flushed afterwards, or it was flushed
/// before the acquire, and this is noticed only now.
#[test]
fn what_lapsed_before_a_flush_is_not_given_back() {
    let cases = [(false, false), (true, false), (false, true)];
    for ((flushed_before, flushed), looks) in cases.into_iter().flat_map(|case| [(case, false), (case, true)])
    {
        let rules = Rules::PLAIN;
        let mut server = Server::new(2);
        if flushed_before {
            server.flush();
        }
        server.acquire(rules, NOW, 0, &ask("a", 30, true), &WaitOptions::default());
        server.expire(rules, NOW + 50);
        if flushed {
            server.flush();
        }
        if looks {
            server.run_due(rules, NOW + 50, Writes::Taken);
        }
        let reply = server.acquire(rules, NOW + 50, 1, &ask("b", 30, false), &WaitOptions::default());
        assert_eq!(matches!(reply, Reply::Granted { .. }), flushed, "{reply:?}");
    }
}

/// The key of a grant was overwritten and deleted after its lease had ended.
#[test]
fn what_lapsed_before_its_key_was_touched_is_not_given_back() {
    for touched in [false, true] {
        let rules = Rules::PLAIN;
        let mut server = Server::new(2);
        server.acquire(rules, NOW, 0, &ask("a", 30, true), &WaitOptions::default());
        server.expire(rules, NOW + 50);
        if touched {
            server.replace(NOW + 50, name("c"), 30);
            server.delete(0);
        }
        let reply = server.acquire(rules, NOW + 50, 1, &ask("b", 30, false), &WaitOptions::default());
        assert_eq!(matches!(reply, Reply::Granted { .. }), touched, "{reply:?}");
    }
}

/// A client with a session waits for an upgrade, and is gone before the answer reaches it. A session that it had before goes on; a session
/// that began with this answer ends.
#[test]
fn an_answer_that_is_lost_takes_its_own_session_with_it_and_no_other() {
    let rules = Rules { late: true, keeps_answers: true, ..Rules::PLAIN };
    for had_one in [true, false] {
        let mut server = Server::new(2);
        let read = |owner, session| AcquireRequest { room: Room::ANY, ..ask(owner, 300, session) };
        server.acquire(rules, NOW, 0, &read("a", had_one), &WaitOptions::default());
        server.acquire(rules, NOW, 1, &read("b", false), &WaitOptions::default());
        assert_eq!(server.acquire(rules, NOW, 0, &ask("a", 300, true), &BLOCKED), Reply::Waits);
        server.release(rules, NOW, &name("b"), None, false);
        server.run_due(rules, NOW, Writes::Taken);
        let fence = server.held(NOW).unwrap().grant.fence();
        assert_eq!(server.session(fence), Some(0), "it has been told");
        assert_eq!(server.unblock(rules, NOW, 0, true), [(0, Reply::Unblocked)]);
        assert_eq!(server.free_done(rules, NOW), []);
        server.run_all_due(rules, NOW);
        assert_eq!(server.held(NOW).map(|held| held.grant.holds()), Some(1));
        assert_eq!(server.session(fence), had_one.then_some(0));
    }
}

/// The server refused to renew sessions, and would try again only later. A command that comes earlier renews all due sessions.
#[test]
fn a_command_renews_the_sessions_that_the_server_refused_to_renew() {
    let rules = Rules::PLAIN;
    let mut server = Server::new(3);
    for (conn, owner) in (0..).zip(["a", "b"]) {
        let session = AcquireRequest { session: true, ..read(owner, 30) };
        server.acquire(rules, NOW, conn, &session, &WaitOptions::default());
    }
    server.run_due(rules, NOW + 10, Writes::Refused);
    let reply = server.acquire(rules, NOW + 20, 2, &ask("c", 30, false), &WaitOptions::default());
    assert_eq!(reply, Reply::Null);
    let ends: Vec<_> = server.holders(NOW + 20).iter().map(|held| held.deadline).collect();
    assert_eq!(ends, [Deadline::after(NOW + 20, 30); 2]);
}

/// The lease of a grant beside a session's grant ends on time, even if nobody waits or sends a command.
#[test]
fn a_grant_that_was_had_at_once_beside_a_session_ends_by_itself() {
    let mut server = Server::new(2);
    let session = AcquireRequest { room: Room::ANY, ..ask("session", 1_000, true) };
    server.acquire(Rules::PLAIN, NOW, 0, &session, &WaitOptions::default());
    server.acquire(Rules::PLAIN, NOW, 1, &read("brief", 100), &WaitOptions::default());
    server.run_all_due(Rules::PLAIN, NOW + 100);
    assert_eq!(server.all_held().len(), 2);
    server.run_all_due(Rules::PLAIN, NOW + 101);
    let held: Vec<_> = server.all_held().iter().map(|held| held.grant.owner().into_owned()).collect();
    assert_eq!(held, [name("session")]);
}

/// An owner has two places in one queue: for this lock alone, and together with another lock.
#[test]
fn an_owner_that_leaves_gives_up_its_last_place() {
    let rules = Rules { claim: 100, ..Rules::PLAIN };
    let mut server = Server::new(3);
    for (lock, owner) in [(0, "holder"), (1, "other")] {
        server.acquire_on(rules, NOW, 0, lock, &ask(owner, 1_000, false), &WaitOptions::default());
    }
    let (place, wish) = (place("a", false), ask("a", 1_000, false));
    assert_eq!(server.acquire(rules, NOW, 1, &wish, &place), Reply::Queued);
    assert_eq!(server.acquire_all(rules, NOW, 1, &[0, 1], &wish, &place), Reply::Queued);
    server.leave(rules, NOW, &name("a"));
    server.release(rules, NOW, &name("holder"), None, false);
    server.run_all_due(rules, NOW);
    assert_eq!(server.held(NOW).map(|held| held.grant.owner().into_owned()), Some(name("a")));
}
