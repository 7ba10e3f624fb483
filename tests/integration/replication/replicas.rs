//! Replicas hold the same locks as their primary.

use redis::Value;

use crate::support::{Client, Server, Setup, Waiter, grant, while_stopped};

/// Runs a mix of commands, in the given way: directly, in a transaction or in a script.
fn mix(client: &mut Client) {
    for round in 0..5 {
        for key in ["a", "b", "c", "d", "e"] {
            let _ = client.send(&format!("LOCK.ACQUIRE {key} OWNER owner{round} PX 60000{round}"));
            let _ = client.send(&format!("LOCK.ACQUIRE {key} OWNER owner0 PX 70000{round}"));
        }
        let _ = client.send("LOCK.RELEASE a owner0");
        let _ = client.send("LOCK.EXTEND b owner0 EX 900");
        let _ = client.send("LOCK.BREAK c");
        client.ask::<()>("MULTI");
        client.ask::<()>("LOCK.ACQUIRE multi OWNER alice EX 500");
        client.ask::<()>("LOCK.ACQUIRE multi OWNER bob");
        client.ask::<()>("LOCK.RELEASE d owner0 ALL");
        client.ask::<redis::Value>("EXEC");
        let script = "redis.call('LOCK.ACQUIRE', KEYS[1]) return redis.call('LOCK.ACQUIRE', KEYS[1])";
        client.ask_words::<redis::Value, _>(["EVAL", script, "1", &format!("script{round}")]);
        client.acquire(&format!("uuid{round}"), "EX 400").unwrap();
        client.acquire("by\0tes", "OWNER \u{fc}\0%s ONCE EX 800").unwrap();
    }
    client.ask::<()>("PERSIST uuid0");
    client.ask::<()>("PEXPIRE uuid1 777000");
    client.ask::<()>("RENAME uuid2 renamed");
    client.ask::<()>("MOVE uuid3 1");
}

#[test]
fn a_replica_refuses_to_change_a_lock_and_shows_it() {
    let primary = Server::start();
    let replica = primary.replica();
    primary.client().acquire("k", "OWNER alice").unwrap();
    replica.wait_for_sync_with(&primary);
    let mut client = replica.client();
    let before = client.snapshot();
    for line in [
        "LOCK.ACQUIRE k",
        "LOCK.ACQUIRE k OWNER alice",
        "LOCK.RELEASE k alice",
        "LOCK.EXTEND k alice",
        "LOCK.BREAK k",
        "LOCK.APPLY k",
    ] {
        assert!(client.refused(line).starts_with("READONLY "), "{line}");
    }
    assert_eq!(client.snapshot(), before);
    assert_eq!(client.holder("k").unwrap().owner, "alice");
}

/// A writable replica keeps no sessions, hands no lock over, and asks no replicas for confirmations.
#[test]
fn a_writable_replica_grants_only_what_it_grants_at_once() {
    let primary = Server::start();
    let replica = primary.replica_with(Setup::new().set("replica-read-only", "no"));
    primary.client().acquire("k", "OWNER alice").unwrap();
    replica.wait_for_sync_with(&primary);
    let mut client = replica.client();
    for (options, what) in [("SESSION", "SESSION"), ("BLOCK 0 NOTIFY ch", "NOTIFY"), ("SYNC 1 100", "SYNC")] {
        let error = client.refused(&format!("LOCK.ACQUIRE own {options}"));
        assert_eq!(error, format!("ERR {what} is not allowed on replicas"));
    }
    assert!(client.lock_info("own").is_none(), "refused, but granted");
    assert!(client.acquire("own", "OWNER alice").is_some());
    assert_eq!(client.acquire("k", "OWNER bob BLOCK 0"), None);
}

#[test]
fn a_promoted_replica_goes_on_where_the_primary_was() {
    let primary = Server::start();
    let replica = primary.replica();
    let mut client = primary.client();
    let fence = client.acquire("k", "OWNER alice PX 600000").unwrap().fence;
    client.acquire("k", "OWNER alice").unwrap();
    replica.wait_for_sync_with(&primary);
    drop(primary);
    let mut client = replica.client();
    client.ask::<()>("REPLICAOF NO ONE");
    assert_eq!(client.acquire("k", "OWNER bob"), None);
    let again = client.acquire("k", "OWNER alice").unwrap();
    assert_eq!((again.fence, again.holds), (fence, 3));
    assert_eq!(client.ask::<i64>(&format!("LOCK.RELEASE k alice FENCE {fence} ALL")), 0);
    assert!(client.acquire("k", "OWNER bob").unwrap().fence > fence);
}

#[test]
fn a_replicas_own_append_only_file_has_the_locks() {
    let primary = Server::start();
    let mut replica =
        primary.replica_with(Setup::new().set("appendonly", "yes").set("appendfsync", "always"));
    // A replica rewrites its AOF after the first copy; only afterwards are new effects safe on its disk.
    let mut client = replica.client();
    client.wait_for_rewrite();
    mix(&mut primary.client());
    replica.wait_for_sync_with(&primary);
    let before = client.snapshot();
    drop(primary);
    replica.kill_and_restart();
    let after = replica.client().snapshot();
    assert_eq!((after.leases, after.digest), (before.leases, before.digest));
}

/// A primary that restarts from its file continues with its replica by a partial resynchronization; fences still rise.
#[test]
fn a_replica_goes_on_after_a_restart_of_its_primary() {
    let mut primary = Setup::new().set("repl-diskless-sync", "yes").start();
    let replica = primary.replica();
    let mut client = primary.client();
    let held = client.acquire("held", "OWNER alice PX 600000").unwrap();
    replica.wait_for_sync_with(&primary);
    drop(client);
    primary.save_and_restart();
    let mut client = primary.client();
    replica.wait_for_sync_with(&primary);
    assert_eq!(client.info("stats", "sync_full"), "0", "the replica went on where it was");
    assert_eq!(replica.client().holder("held").unwrap().fence, held.fence);
    let mut waiter = Waiter::new(&primary, "held", "OWNER bob PX 600000");
    client.ask::<i64>("LOCK.RELEASE held alice");
    let granted = waiter.granted();
    assert!(granted.fence > held.fence);
    replica.wait_for_sync_with(&primary);
    assert_eq!(replica.client().holder("held").unwrap().fence, granted.fence);
    assert_eq!(replica.client().ask::<String>("DEBUG DIGEST"), client.ask::<String>("DEBUG DIGEST"));
}

/// After the grant, the owner can run `WAIT` until replicas have it.
#[test]
fn wait_after_the_grant_waits_for_the_grant() {
    let primary = Server::start();
    let replica = primary.replica();
    let mut client = primary.client();
    client.acquire("k", "OWNER alice PX 600000").unwrap();
    let mut bob = Waiter::new(&primary, "k", "OWNER bob PX 600000");
    replica.wait_for_sync_with(&primary);
    assert_eq!(client.ask::<i64>("WAIT 1 5000"), 1);
    let (granted, here, there) = while_stopped(&replica, || {
        client.begin("LOCK.RELEASE k alice");
        let granted = grant(bob.client.finish().unwrap()).unwrap();
        let here = bob.client.ask::<i64>("WAIT 1 200");
        assert_eq!(client.finish(), Ok(Value::Int(0)));
        (granted, here, client.ask::<i64>("WAIT 1 200"))
    });
    assert_eq!((here, there), (0, 0), "a replica that stands still has it already");
    assert_eq!(bob.client.ask::<i64>("WAIT 1 5000"), 1);
    assert_eq!(replica.client().holder("k").unwrap().fence, granted.fence);
}
