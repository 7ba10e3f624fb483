//! The lease of a session is renewed as long as its connection is open.

use super::connection::has_session;
use crate::support::{Server, Setup, all_along, server_time, wait_for};

#[test]
fn a_lease_that_would_be_renewed_all_the_time_is_refused() {
    let (_server, mut client) = Setup::new().shipped().start_and_client();
    let too_short = |min| {
        format!(
            "ERR value is out of range, the lease of a SESSION must be at least {min} ms (lock.min-session-lease)"
        )
    };
    let before = client.snapshot();
    assert_eq!(client.refused("LOCK.ACQUIRE k OWNER a PX 999 SESSION"), too_short(1000));
    assert_eq!(client.refused("LOCK.MACQUIRE 2 k l OWNER a PX 999 SESSION BLOCK 1"), too_short(1000));
    client.ask::<()>("CONFIG SET lock.default-lease 900");
    assert_eq!(client.refused("LOCK.ACQUIRE k OWNER a SESSION"), too_short(1000));
    client.ask::<()>("CONFIG SET lock.min-session-lease 2000");
    assert_eq!(client.refused("LOCK.ACQUIRE k OWNER a PX 1999 SESSION"), too_short(2000));
    assert_eq!(client.snapshot(), before);
    client.acquire("k", "OWNER a PX 1").unwrap();
    client.acquire("l", "OWNER a PX 2000 SESSION").unwrap();
    client.ask::<()>("CONFIG SET lock.max-lease 500");
    client.acquire("m", "OWNER a PX 500 SESSION").unwrap();
    assert_eq!(client.refused("LOCK.ACQUIRE n OWNER a PX 499 SESSION"), too_short(500));
}

#[test]
fn a_session_keeps_the_lease_alive() {
    let (_server, [mut alice, mut client]) = Server::and_clients();
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

/// If an extension or `PEXPIRE` makes the lease end before the next renewal, the session is still renewed in time.
#[test]
fn a_lease_cut_short_is_lengthened_again_while_the_connection_lives() {
    let (_server, [mut alice, mut client]) = Server::and_clients();
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
    let (_server, [mut alice, mut client]) = Server::and_clients();
    alice.acquire("k", "OWNER alice PX 900 SESSION").unwrap();
    client.ask::<()>("CONFIG SET lock.max-lease 450");
    let most = 450 + client.ttl_beyond_lease();
    wait_for("a renewal within the cap", || (1..=most).contains(&client.ask::<i64>("PTTL k")));
    all_along(&mut client, 900, |client| assert!(client.ask::<i64>("PTTL k") <= most));
    assert!(has_session(&mut client, "k"));
}
