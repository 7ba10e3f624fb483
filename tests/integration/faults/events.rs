//! Panics in callbacks for keys, databases, connections and the server's role.

use super::{arm, goes_on, server, struck};
use crate::support::{Setup, Waiter, grant, wait_for, wait_until_gone};

#[test]
fn a_lapse_and_an_eviction_are_not_counted_and_the_lock_is_free() {
    let (server, mut client) =
        Setup::new().with_faults().set("maxmemory-policy", "allkeys-lru").start_and_client();
    arm(&mut client, "expired-event");
    client.acquire("k", "OWNER alice PX 1").unwrap();
    wait_for("a lapse", || client.holder("k").is_none() && client.acquire("k", "OWNER bob EX 600").is_some());
    struck(&server, &mut client, "expired-event");
    assert_eq!(client.info("lock", "lock_lapses"), "0");
    arm(&mut client, "evicted-event");
    client.ask::<()>("CONFIG SET maxmemory 1");
    let _ = client.send("SET text any");
    client.ask::<()>("CONFIG SET maxmemory 0");
    struck(&server, &mut client, "evicted-event");
    assert_eq!(client.info("lock", "lock_evictions"), "0");
    assert_eq!(client.holder("k"), None);
    goes_on(&server);
}

/// The server reports a deletion to two callbacks, the type's and the event's. If one panics, the waiter still gets the lock.
#[test]
fn a_deleted_lock_goes_to_the_waiter() {
    let (server, mut client) = server();
    let deletions =
        [("key-event", "DEL k"), ("unlink", "DEL k"), ("free", "DEL k"), ("free-effort", "UNLINK k")];
    for (callback, line) in deletions {
        client.acquire("k", "OWNER alice PX 600000").unwrap();
        let mut waiter = Waiter::new(&server, "k", "OWNER bob");
        arm(&mut client, callback);
        client.ask::<()>(line);
        assert_eq!(grant(waiter.client.finish().unwrap()).unwrap().owner, "bob");
        struck(&server, &mut client, callback);
        client.ask::<i64>("LOCK.RELEASE k bob");
    }
    goes_on(&server);
}

/// A flush is reported only once. If that is missed, the waiter gets the lock at the next look, when the lease ends.
#[test]
fn a_flush_or_swap_that_is_missed_is_found_at_the_end_of_the_lease() {
    let (server, mut client) = server();
    for (callback, line) in [("flush-event", "FLUSHALL"), ("swap-event", "SWAPDB 0 1")] {
        client.acquire("k", "OWNER alice PX 300").unwrap();
        let mut waiter = server.client();
        waiter.begin("LOCK.ACQUIRE k OWNER bob BLOCK 0");
        wait_for("a waiter or its grant", || {
            client.info("lock", "lock_waiters") == "1" || client.holder("k").is_some_and(|k| k.owner == "bob")
        });
        arm(&mut client, callback);
        client.ask::<()>(line);
        assert_eq!(grant(waiter.finish().unwrap()).unwrap().owner, "bob");
        struck(&server, &mut client, callback);
        client.ask::<()>("FLUSHALL");
    }
    goes_on(&server);
}

/// A missed change of settings is noticed later. The heartbeat, which the server's cron event may start, also has a timer.
#[test]
fn a_change_of_settings_or_a_turn_of_duty_that_is_missed() {
    let (server, mut client) = server();
    for callback in ["config-event", "cron-event"] {
        arm(&mut client, callback);
        client.ask::<()>("CONFIG SET maxmemory-policy allkeys-lru");
        struck(&server, &mut client, callback);
        goes_on(&server);
    }
}

/// If a close was missed, the session ends when its lease would be renewed.
#[test]
fn a_session_ends_with_a_connection_whose_close_was_missed() {
    let (server, mut client) = server();
    let mut holder = server.client();
    let id: i64 = holder.ask("CLIENT ID");
    holder.acquire("k", "OWNER alice PX 1000 SESSION").unwrap();
    arm(&mut client, "client-event");
    drop(holder);
    wait_until_gone(&mut client, id);
    struck(&server, &mut client, "client-event");
    wait_for("the end of the session", || client.holder("k").is_none());
    assert_eq!(client.info("lock", "lock_sessions_ended"), "1");
    assert_eq!(client.info("lock", "lock_sessions"), "0");
    goes_on(&server);
}

#[test]
fn a_promotion_and_a_demotion_take_place() {
    let (primary, mut there) = server();
    let replica = primary.replica_with(Setup::new().with_faults());
    let mut client = replica.client();
    arm(&mut client, "role-event");
    client.ask::<()>("REPLICAOF NO ONE");
    struck(&replica, &mut client, "role-event");
    goes_on(&replica);
    arm(&mut client, "role-event");
    client.ask::<()>(&format!("REPLICAOF 127.0.0.1 {}", primary.port()));
    struck(&replica, &mut client, "role-event");
    replica.wait_for_sync_with(&primary);
    there.acquire("k", "OWNER alice").unwrap();
    replica.wait_for_sync_with(&primary);
    assert_eq!(client.holder("k").unwrap().owner, "alice");
}
