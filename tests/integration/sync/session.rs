//! Sessions whose renewals replicas confirm.

use std::time::{Duration, Instant};

use super::{NO_REPLICAS, confirmed, pair};
use crate::support::{Client, Mailbox, Server, Waiter, freeze, held, server_time, soon, wait_for, wake};

/// Its lease is renewed on both servers.
#[test]
fn a_session_goes_on_while_the_replica_confirms() {
    let (_primary, _replica, mut client, mut there) = pair();
    let told = client.acquire("k", "OWNER alice PX 3000 SESSION SYNC 1 2000").unwrap();
    let (mut end, mut renewals) = (0, 0);
    wait_for("renewals there too", || {
        assert_eq!(client.holder("k").expect("it is renewed").fence, told.fence);
        assert_eq!(there.holder("k").expect("there too").fence, told.fence);
        let now: i64 = there.ask("PEXPIRETIME k");
        renewals += i32::from(now > end);
        end = now;
        renewals > 3
    });
    soon("all is confirmed", || client.info("lock", "lock_syncing") == "0");
}

/// The replica may have been promoted, for all that its primary knows: it lets the lease end when the replica does.
#[test]
fn a_session_ends_with_the_lease_that_the_replica_has() {
    let (primary, replica, mut client, mut there) = pair();
    let told = confirmed(&mut client, "OWNER alice PX 3000 SESSION NOTIFY ch SYNC 1 100");
    let mut mail = Mailbox::of(&primary, "ch");
    freeze(&replica);
    let mut bob = Waiter::new(&primary, "k", "OWNER bob BLOCK 0");
    assert_eq!(mail.next(), format!("wanted {} alice", told.fence));
    assert_eq!(mail.next(), format!("lost {} alice", told.fence));
    assert_eq!(bob.granted().owner, "bob");
    wake(&replica);
    wait_for("the replica to follow", || there.holder("k").is_some_and(|held| held.owner == "bob"));
}

/// It never shows a lease for longer than a moment that the replica does not have.
#[test]
fn an_unconfirmed_renewal_is_undone() {
    let (_primary, replica, mut client, _) = pair();
    let lease = 3000;
    confirmed(&mut client, &format!("OWNER alice PX {lease} SESSION SYNC 1 50"));
    // It is no later than that.
    let end = server_time(&mut client) + lease;
    freeze(&replica);
    let mut over = 0;
    wait_for("it to lapse", || {
        let now = server_time(&mut client);
        match client.holder("k") {
            Some(held) => {
                // A renewal under way shows the new one.
                over += i64::from(held.lease > end - now + 100);
                assert!(now < end + 500, "the lease was over {} ms ago", now - end);
                false
            }
            None => true,
        }
    });
    println!("figure: {over} looks at a renewal that was not confirmed");
    wake(&replica);
}

#[test]
fn a_session_goes_on_when_the_replica_comes_back_in_time() {
    let (_primary, replica, mut client, mut there) = pair();
    let told = confirmed(&mut client, "OWNER alice PX 6000 SESSION SYNC 1 50");
    freeze(&replica);
    wait_for("a renewal that fails", || client.info("lock", "lock_syncing") == "1");
    wait_for("it to be undone", || client.info("lock", "lock_syncing") == "0");
    wake(&replica);
    let end = Instant::now() + Duration::from_secs(8);
    while Instant::now() < end {
        assert_eq!(client.holder("k").expect("it goes on").fence, told.fence);
    }
    assert_eq!(there.holder("k").unwrap().fence, told.fence);
}

#[test]
fn a_session_begins_when_it_is_confirmed_and_never_where_it_is_not() {
    let server = Server::start();
    let mut client = server.client();
    assert_eq!(client.refused("LOCK.ACQUIRE k OWNER alice SESSION SYNC 1 50"), NO_REPLICAS);
    assert_eq!(client.info("lock", "lock_sessions"), "0");
    assert_eq!(client.holder("k"), None);
}

/// One without `SYNC` takes it over: from then on nobody is asked.
#[test]
fn a_session_is_what_the_last_one_asked_for() {
    let (primary, replica, mut client, _) = pair();
    let told = confirmed(&mut client, "OWNER alice PX 600 SESSION SYNC 1 100");
    let mut other = primary.client();
    other.acquire("k", "OWNER alice PX 600 ONCE SESSION").unwrap();
    freeze(&replica);
    let end = Instant::now() + Duration::from_millis(1800);
    while Instant::now() < end {
        assert_eq!(held(&mut client, "k").fence, told.fence);
    }
    wake(&replica);
}

/// Its holder asks for its grant again and again, in doubt: that makes the lease no longer than the replicas know.
#[test]
fn asking_again_does_not_keep_a_session_alive_that_replicas_do_not_confirm() {
    let (primary, replica, mut client, _) = pair();
    let words = "OWNER alice PX 1500 ONCE SESSION SYNC 1 100";
    confirmed(&mut client, words);
    freeze(&replica);
    let mut other = primary.client();
    let end = Instant::now() + Duration::from_secs(10);
    while other.holder("k").is_some_and(|held| held.owner == "alice") {
        assert!(Instant::now() < end, "it goes on for ever");
        assert!(client.send(&format!("LOCK.ACQUIRE k {words}")).is_err());
    }
    wake(&replica);
}

/// Whose connection has closed waits for the one that comes after it, and does so without spinning.
#[test]
fn a_session_that_is_to_be_taken_over_costs_nothing_meanwhile() {
    let (primary, replica, mut client, _) = pair();
    let mut first = primary.client();
    confirmed(&mut first, "OWNER alice PX 900 SESSION SYNC 1 100");
    freeze(&replica);
    let mut second = Waiter::new(&primary, "k", "OWNER alice PX 60000 ONCE SESSION SYNC 1 3000");
    wait_for("both to wait", || client.info("lock", "lock_syncing") != "0");
    drop(first);
    let settled = |client: &mut Client| {
        let stats = client.info("commandstats", "cmdstat_lock.settle");
        let calls = stats.split(['=', ',']).nth(1).and_then(|calls| calls.parse::<i64>().ok());
        calls.unwrap_or(0)
    };
    let before = settled(&mut client);
    wait_for("the lease to end", || client.info("lock", "lock_syncing") == "0");
    assert_eq!(second.refused(), NO_REPLICAS);
    let after = settled(&mut client);
    assert!(after - before < 200, "{before} to {after}");
    wake(&replica);
}
