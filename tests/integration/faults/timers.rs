//! Panics in timers of the module: the timer fires again.

use super::{arm, goes_on, server, struck};
use crate::support::{Setup, Waiter, grant};

#[test]
fn a_lapse_is_handed_over_and_a_timeout_answered_after_a_panic_of_what_is_due() {
    let (server, mut client) = server();
    for _ in 0..3 {
        client.acquire("k", "OWNER alice PX 600000").unwrap();
        let mut waiter = Waiter::new(&server, "k", "OWNER bob PX 600000");
        arm(&mut client, "due-work");
        client.ask::<()>("PEXPIRE k 1");
        assert_eq!(grant(waiter.client.finish().unwrap()).unwrap().owner, "bob");
        struck(&server, &mut client, "due-work");
        // The fault is armed before carol asks, because her wait may be over before the next command.
        arm(&mut client, "due-work");
        let mut carol = server.client();
        carol.begin("LOCK.ACQUIRE k OWNER carol BLOCK 100");
        assert_eq!(grant(carol.finish().unwrap()), None);
        struck(&server, &mut client, "due-work");
        assert_eq!(client.ask::<i64>("LOCK.RELEASE k bob"), 0);
    }
    goes_on(&server);
}

#[test]
fn the_answer_to_a_release_comes_after_a_panic_of_the_timer() {
    let (server, mut client) = server();
    client.acquire("k", "OWNER alice PX 600000").unwrap();
    let mut waiter = Waiter::new(&server, "k", "OWNER bob PX 600000");
    arm(&mut client, "answers");
    client.ask::<i64>("LOCK.RELEASE k alice");
    assert_eq!(grant(waiter.client.finish().unwrap()).unwrap().owner, "bob");
    struck(&server, &mut client, "answers");
    goes_on(&server);
}

/// The check for listeners continues as long as there may be one: here the AOF.
#[test]
fn the_heart_beats_on_and_the_look_for_listeners_goes_on() {
    let (server, mut client) = Setup::new().with_faults().set("appendonly", "yes").start_and_client();
    for callback in ["heartbeat", "look"].repeat(3) {
        arm(&mut client, callback);
        struck(&server, &mut client, callback);
    }
    goes_on(&server);
}

/// The first replica connects after a panic in the check for replicas, and must get all effects.
#[test]
fn a_first_replica_is_told_of_everything() {
    let (server, mut client) = server();
    // After three heartbeats, the server has checked for replicas once, and found none.
    for _ in 0..3 {
        arm(&mut client, "heartbeat");
        struck(&server, &mut client, "heartbeat");
    }
    arm(&mut client, "audience");
    let replica = server.replica_with(Setup::new());
    struck(&server, &mut client, "audience");
    client.acquire("k", "OWNER alice").unwrap();
    replica.wait_for_sync_with(&server);
    assert_eq!(replica.client().holder("k").unwrap().owner, "alice");
    goes_on(&server);
}

#[test]
fn a_grant_that_replicas_confirm_is_told_after_a_panic() {
    let (server, mut client) = server();
    let replica = server.replica_with(Setup::new());
    client.acquire("first", "OWNER alice SYNC 1 60000").unwrap();
    // The first callback is the timer that checks the replica's offset, the second one sees the replica's acknowledgements.
    for callback in ["replicas", "command-filter"] {
        arm(&mut client, callback);
        assert_eq!(client.acquire(callback, "OWNER alice SYNC 1 60000").unwrap().owner, "alice");
        struck(&server, &mut client, callback);
        assert_eq!(replica.client().holder(callback).unwrap().owner, "alice");
    }
    goes_on(&server);
}
