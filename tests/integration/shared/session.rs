//! Sessions of several grants, and their greatest ages.

use super::{NOT_HELD, count, holds, readers, release, waits};
use crate::support::{Server, server_time, soon, wait_for, wait_until};

#[test]
fn a_closed_connection_ends_its_own_grant_only() {
    let server = Server::start();
    let (mut client, mut first, mut second) = (server.client(), server.client(), server.client());
    holds(&mut first, "a", "SHARED SESSION");
    holds(&mut second, "b", "SHARED SESSION");
    readers(&mut first, ["c"]);
    let sessions: Vec<_> = client.holders("k").iter().map(|holder| holder.session).collect();
    assert_eq!(sessions, [true, true, false]);
    assert_eq!(count(&mut client, "lock_sessions"), 2);
    drop(first);
    soon("the end of its session", || client.holding("k") == ["b", "c"]);
    assert_eq!(client.refused("LOCK.RELEASE k a"), NOT_HELD);
    assert_eq!(count(&mut client, "lock_sessions"), 1);
}

#[test]
fn one_connection_has_several_sessions_on_one_lock() {
    let server = Server::start();
    let (mut client, mut session) = (server.client(), server.client());
    for owner in ["a", "b", "c"] {
        holds(&mut session, owner, "SHARED SESSION");
    }
    readers(&mut client, ["d"]);
    let mut writer = waits(&server, "w", "");
    assert_eq!(release(&mut session, "b"), 0, "the connection and the other sessions stay");
    assert_eq!(count(&mut client, "lock_sessions"), 2);
    drop(session);
    soon("the end of all its sessions", || client.holding("k") == ["d"]);
    assert_eq!(count(&mut client, "lock_sessions"), 0);
    release(&mut client, "d");
    writer.granted();
}

#[test]
fn each_lease_is_renewed_for_itself() {
    let server = Server::start();
    let (mut client, mut session) = (server.client(), server.client());
    holds(&mut session, "a", "SHARED SESSION PX 900");
    holds(&mut session, "b", "LIMIT 9 SESSION PX 600");
    holds(&mut client, "c", "SHARED PX 300");
    let end = server_time(&mut client) + 2500;
    wait_until(&mut client, end);
    assert_eq!(client.holding("k"), ["a", "b"], "one had no session");
    let leases: Vec<_> = client.holders("k").iter().map(|holder| holder.lease).collect();
    assert!(leases[0] <= 900 && leases[1] <= 600, "{leases:?}");
}

/// The end of a session makes room.
#[test]
fn who_waits_comes_when_a_session_ends() {
    let server = Server::start();
    let (mut client, mut session) = (server.client(), server.client());
    holds(&mut session, "a", "LIMIT 2 SESSION");
    holds(&mut client, "b", "LIMIT 2");
    let mut c = waits(&server, "c", "LIMIT 2");
    drop(session);
    c.granted();
    assert_eq!(client.holding("k"), ["b", "c"]);
}

#[test]
fn a_waiter_has_its_session_beside_others() {
    let server = Server::start();
    let mut client = server.client();
    holds(&mut client, "w", "");
    let mut waiters = ["a", "b"].map(|owner| waits(&server, owner, "SHARED SESSION PX 900"));
    release(&mut client, "w");
    for waiter in &mut waiters {
        waiter.granted();
    }
    soon("their sessions", || count(&mut client, "lock_sessions") == 2);
    let end = server_time(&mut client) + 1500;
    wait_until(&mut client, end);
    assert_eq!(client.holding("k"), ["a", "b"]);
    let [a, _b] = waiters;
    drop(a);
    soon("the end of one", || client.holding("k") == ["b"]);
}

#[test]
fn an_upgrade_keeps_the_session_or_begins_one() {
    let server = Server::start();
    let (mut client, mut session) = (server.client(), server.client());
    holds(&mut session, "a", "SHARED SESSION");
    holds(&mut session, "a", "ONCE");
    assert!(client.held_by("k", "a").unwrap().session);
    drop(session);
    soon("its end", || client.holders("k").is_empty());
    let mut session = server.client();
    readers(&mut client, ["a", "b"]);
    session.begin("LOCK.ACQUIRE k OWNER a SESSION BLOCK 0 PX 600000");
    wait_for("it to wait", || client.lock_info("k").unwrap()["waiters"] == "1");
    release(&mut client, "b");
    session.finish().unwrap();
    soon("its session", || client.held_by("k", "a").unwrap().session);
    drop(session);
    soon("its end", || client.holders("k").is_empty());
}

#[test]
fn a_session_is_taken_over_for_one_grant() {
    let server = Server::start();
    let (mut client, mut first, mut second) = (server.client(), server.client(), server.client());
    for owner in ["a", "b"] {
        holds(&mut first, owner, "SHARED SESSION");
    }
    holds(&mut second, "a", "SHARED ONCE SESSION");
    drop(first);
    soon("the end of the other", || client.holding("k") == ["a"]);
    drop(second);
    soon("the end of that", || client.holders("k").is_empty());
}

#[test]
fn a_greatest_age_is_each_grants_own() {
    let server = Server::start();
    let (mut client, mut session) = (server.client(), server.client());
    let limited = holds(&mut client, "a", "SHARED PX 600000 MAXHOLD 400");
    assert_eq!(limited.lease, 400);
    holds(&mut session, "b", "SHARED SESSION PX 200 MAXHOLD 700");
    readers(&mut client, ["c"]);
    wait_for("the end of both", || client.holding("k") == ["c"]);
    assert_eq!(client.ask::<i64>("LOCK.EXTEND k c PX 700000"), 700_000);
    assert_eq!(count(&mut client, "lock_lapses"), 2);
}

#[test]
fn the_servers_greatest_age_is_for_each() {
    let server = crate::support::Setup::new().module_args("max-hold 200000").start();
    let mut client = server.client();
    for owner in ["a", "b"] {
        assert_eq!(holds(&mut client, owner, "SHARED").lease, 200_000);
        assert!(client.ask::<i64>(&format!("LOCK.EXTEND k {owner} PX 900000")) <= 200_000);
    }
    // An upgrade is no new grant.
    release(&mut client, "b");
    assert!(holds(&mut client, "a", "PX 900000").lease <= 200_000);
}
