//! An upgrade whose grant ends while it waits: the owner waits on, for a new grant.

use super::{count, holds, readers, release, waits};
use crate::support::{Listener, Server, Waiter, wait_for};

/// Owner a reads, beside b, and waits to write; its grant ends in that way, and it waits on.
#[track_caller]
fn waits_on_for_a_new_grant(server: &Server, lease: &str, end: impl Fn(&mut crate::support::Client, i64)) {
    let mut client = server.client();
    let reader = holds(&mut client, "a", &format!("SHARED PX {lease}"));
    let [other] = readers(&mut client, ["b"]);
    let mut upgrade = waits(server, "a", "");
    end(&mut client, reader.fence);
    wait_for("the end of the grant", || client.holding("k") == ["b"]);
    assert!(upgrade.is_blocked(&mut client));
    release(&mut client, "b");
    let next = upgrade.granted();
    assert_eq!((&next.owner[..], next.holds), ("a", 1));
    assert!(next.fence > other.fence, "{next:?} is no new grant after {other:?}");
    assert_eq!(client.held_by("k", "a").unwrap().limit, 1);
    assert_eq!(release(&mut client, "a"), 0);
}

#[test]
fn by_a_lapse() {
    let server = Server::start();
    waits_on_for_a_new_grant(&server, "300", |_, _| {});
    assert_eq!(count(&mut server.client(), "lock_lapses"), 1);
    // Found by the module itself, not by the server's search for what has expired.
    let server = Server::start();
    server.client().ask::<()>("DEBUG SET-ACTIVE-EXPIRE 0");
    waits_on_for_a_new_grant(&server, "300", |_, _| {});
}

#[test]
fn by_a_break_of_that_grant() {
    let server = Server::start();
    waits_on_for_a_new_grant(&server, "600000", |client, fence| {
        assert_eq!(client.ask::<i64>(&format!("LOCK.BREAK k FENCE {fence}")), 1);
    });
}

#[test]
fn by_its_own_release() {
    let server = Server::start();
    waits_on_for_a_new_grant(&server, "600000", |client, _| assert_eq!(release(client, "a"), 0));
}

/// Where all grants end at once, it gets a new one at once.
#[test]
fn with_all_the_others() {
    let server = Server::start();
    let mut client = server.client();
    for end in ["LOCK.BREAK k", "DEL k", "FLUSHALL", "RENAME k other"] {
        let [reader, _] = readers(&mut client, ["a", "b"]);
        let mut upgrade = waits(&server, "a", "");
        client.ask::<redis::Value>(end);
        let next = upgrade.granted();
        assert!(next.fence > reader.fence && next.holds == 1, "{end}: {next:?}");
        assert_eq!(client.holding("k"), ["a"], "{end}");
        client.ask::<()>("FLUSHALL");
    }
}

/// The others' waits go on when it goes away after that.
#[test]
fn and_it_goes_away() {
    let server = Server::start();
    let mut client = server.client();
    readers(&mut client, ["a", "b"]);
    let upgrade = waits(&server, "a", "");
    let mut reader = waits(&server, "r", "SHARED");
    client.ask::<()>("LOCK.EXTEND k a PX 100");
    wait_for("the lapse", || client.holding("k") == ["b"]);
    assert!(reader.is_blocked(&mut client), "a writer stands before it");
    client.ask::<()>(&format!("CLIENT KILL ID {}", upgrade.id));
    reader.granted();
    assert_eq!(client.holding("k"), ["b", "r"]);
}

/// A second owner may wait for an upgrade once the first has no grant to upgrade any more.
#[test]
fn a_second_upgrade_comes_before_one_that_has_lost_its_grant() {
    let server = Server::start();
    let mut client = server.client();
    readers(&mut client, ["a", "b", "c"]);
    let mut listener = Listener::new(&server, "Ed");
    let mut first = waits(&server, "a", "");
    client.ask::<()>("LOCK.EXTEND k a PX 300");
    assert_eq!(listener.next(), ["lock.extended k", "lock.lapsed k"]);
    let mut second: Waiter = waits(&server, "b", "");
    release(&mut client, "c");
    assert_eq!(second.granted().holds, 2, "its grant is the only one");
    client.ask::<()>("LOCK.RELEASE k b ALL");
    assert_eq!(first.granted().holds, 1);
}
