//! The lease of a session is renewed as long as its connection is open.

use super::connection::has_session;
use crate::support::{Server, Waiter, all_along, server_time, soon, wait_for, wait_until};

#[test]
fn a_session_keeps_the_lease_alive() {
    let server = Server::start();
    let (mut alice, mut client) = (server.client(), server.client());
    let granted = alice.acquire("k", "OWNER alice PX 3000 SESSION").unwrap();
    assert_eq!(granted.lease, 3000);
    let beyond = client.ttl_beyond_lease();
    let end = server_time(&mut client) + 5000;
    let mut ends = 0;
    let mut renewals = 0;
    wait_for("5 s and 5 renewals", || {
        let left: i64 = client.ask("PTTL k");
        assert!(left > 0 && left <= 3000 + beyond, "{left} ms left");
        let now: i64 = client.ask("PEXPIRETIME k");
        renewals += i32::from(now > ends);
        ends = now;
        server_time(&mut client) >= end && renewals >= 5
    });
    let holder = client.holder("k").unwrap();
    assert_eq!((holder.owner, holder.fence, holder.holds), (granted.owner, granted.fence, 1));
    assert!(has_session(&mut client, "k"));
}

#[test]
fn without_a_session_the_lease_ends_though_the_connection_is_open() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire("k", "OWNER alice PX 2000").unwrap();
    client.acquire("s", "OWNER alice PX 2000 SESSION").unwrap();
    assert!(!has_session(&mut client, "k"));
    wait_for("the lapse", || client.holder("k").is_none());
    assert!(has_session(&mut client, "s"));
}

/// An extension or an expiry that ends before the next renewal is due is renewed in time all the same.
#[test]
fn a_lease_cut_short_is_lengthened_again_while_the_connection_lives() {
    let server = Server::start();
    let (mut alice, mut client) = (server.client(), server.client());
    for (key, cut) in [("k", "LOCK.EXTEND k alice PX 900"), ("l", "PEXPIRE l 900")] {
        let granted = alice.acquire(key, "OWNER alice PX 600000 SESSION").unwrap();
        alice.ask::<i64>(cut);
        wait_for("the whole lease", || client.ask::<i64>(&format!("PTTL {key}")) > 500_000);
        let holder = client.holder(key).unwrap();
        assert_eq!((&holder.owner[..], holder.fence), ("alice", granted.fence));
        assert!(has_session(&mut client, key));
    }
}

#[test]
fn a_session_keeps_to_a_cap_on_leases_that_is_set_later() {
    let server = Server::start();
    let (mut alice, mut client) = (server.client(), server.client());
    alice.acquire("k", "OWNER alice PX 900 SESSION").unwrap();
    client.ask::<()>("CONFIG SET lock.max-lease 450");
    let most = 450 + client.ttl_beyond_lease();
    wait_for("a renewal within the cap", || (1..=most).contains(&client.ask::<i64>("PTTL k")));
    all_along(&mut client, 900, |client| assert!(client.ask::<i64>("PTTL k") <= most));
    assert!(has_session(&mut client, "k"));
}

/// The grant is shorter than the waiter asked for, so it is to be renewed sooner.
#[test]
fn a_waiters_session_keeps_to_a_cap_on_leases_that_is_set_while_it_waits() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire("k", "OWNER alice PX 600000").unwrap();
    let mut bob = Waiter::new(&server, "k", "OWNER bob PX 600000 SESSION");
    client.ask::<()>("CONFIG SET lock.max-lease 900");
    client.ask::<()>("LOCK.RELEASE k alice");
    let granted = bob.granted();
    wait_until(&mut client, granted.granted_at() + 1800);
    assert_eq!(client.holder("k").map(|holder| holder.fence), Some(granted.fence));
    assert!(has_session(&mut client, "k"));
}

#[test]
fn renewals_are_replicated_and_the_replica_lets_nothing_lapse() {
    let primary = Server::start();
    let replica = primary.replica();
    let (mut alice, mut there) = (primary.client(), replica.client());
    let granted = alice.acquire("k", "OWNER alice PX 4500 SESSION").unwrap();
    wait_for("the lock on the replica", || there.holder("k").is_some());
    all_along(&mut there, 5500, |there| {
        assert_eq!(there.holder("k").map(|holder| holder.fence), Some(granted.fence));
    });
    assert!(!has_session(&mut there, "k"));
    drop(alice);
    soon("the release on the replica", || there.ask::<i64>("DBSIZE") == 0);
}
