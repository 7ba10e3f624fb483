//! Sessions of several grants, and their greatest ages.

use super::{count, holds, readers, release};
use crate::support::{HELD_BY_ANOTHER, Server, server_time, soon, wait_for, wait_until};

#[test]
fn a_closed_connection_ends_its_own_grant_only() {
    let (_server, [mut client, mut first, mut second]) = Server::and_clients();
    holds(&mut first, "a", "SHARED SESSION");
    holds(&mut second, "b", "SHARED SESSION");
    readers(&mut first, ["c"]);
    let sessions: Vec<_> = client.holders("k").iter().map(|holder| holder.session).collect();
    assert_eq!(sessions, [true, true, false]);
    assert_eq!(count(&mut client, "lock_sessions"), 2);
    drop(first);
    soon("the end of its session", || client.holding("k") == ["b", "c"]);
    assert_eq!(client.refused("LOCK.RELEASE k a"), HELD_BY_ANOTHER);
    assert_eq!(count(&mut client, "lock_sessions"), 1);
}

#[test]
fn each_lease_is_renewed_for_itself() {
    let (_server, [mut client, mut session]) = Server::and_clients();
    holds(&mut session, "a", "SHARED SESSION PX 900");
    holds(&mut session, "b", "LIMIT 9 SESSION PX 600");
    holds(&mut client, "c", "SHARED PX 300");
    let end = server_time(&mut client) + 2500;
    wait_until(&mut client, end);
    assert_eq!(client.holding("k"), ["a", "b"], "one had no session");
    let leases: Vec<_> = client.holders("k").iter().map(|holder| holder.lease).collect();
    assert!(leases[0] <= 900 && leases[1] <= 600, "{leases:?}");
}

#[test]
fn an_upgrade_keeps_the_session_or_begins_one() {
    let (server, [mut client, mut session]) = Server::and_clients();
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
fn a_greatest_age_is_each_grants_own() {
    let (_server, [mut client, mut session]) = Server::and_clients();
    let limited = holds(&mut client, "a", "SHARED PX 600000 MAXHOLD 400");
    assert_eq!(limited.lease, 400);
    holds(&mut session, "b", "SHARED SESSION PX 200 MAXHOLD 700");
    readers(&mut client, ["c"]);
    wait_for("the end of both", || client.holding("k") == ["c"]);
    assert_eq!(client.ask::<i64>("LOCK.EXTEND k c PX 700000"), 700_000);
    assert_eq!(count(&mut client, "lock_lapses"), 2);
}
