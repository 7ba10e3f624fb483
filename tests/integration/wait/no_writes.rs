//! While the server must not write, nothing is granted, not even by a timer, but it is granted directly afterwards.

use crate::support::{
    Client, Server, Setup, Stopwatch, Waiter, lease_end_after, server_time, soon, transaction, wait_for,
    wait_until,
};

fn offset(client: &mut Client) -> i64 {
    client.info("replication", "master_repl_offset").parse().unwrap()
}

#[test]
fn nothing_is_handed_on_in_a_pause_of_everything() {
    let (_server, mut client, mut bob) = Server::waited_for();
    let (watch, paused) = (Stopwatch::start(), server_time(&mut client));
    transaction(&mut client, &["LOCK.EXTEND k alice PX 200", "CLIENT PAUSE 600 ALL"]);
    // The reply comes when the pause is over.
    let after = server_time(&mut client);
    assert!(after >= paused + 600);
    let granted = bob.granted().granted_at();
    assert!(granted >= paused + 600, "{} ms into the pause", granted - paused);
    assert!(granted <= after + watch.allowed(), "{} ms after the pause", granted - after);
}

/// A connection that closes in the pause does not release its session's grant until the pause ends.
#[test]
fn nothing_is_handed_on_in_a_pause_of_writes() {
    let primary = Setup::new().set("repl-ping-replica-period", "3600").start();
    let replica = primary.replica();
    let mut client = primary.client();
    client.acquire("k", "OWNER alice").unwrap();
    let mut bob = Waiter::new(&primary, "k", "OWNER bob");
    let mut session = primary.client();
    session.acquire("s", "OWNER alice PX 300 SESSION").unwrap();
    let mut carol = Waiter::new(&primary, "s", "OWNER carol");
    let mut dying = primary.client();
    dying.acquire("d", "OWNER alice PX 600000 SESSION").unwrap();
    let mut dave = Waiter::new(&primary, "d", "OWNER dave");
    let lines = ["LOCK.EXTEND k alice PX 300", "CLIENT PAUSE 60000 WRITE"];
    let ends = lease_end_after(&mut client, "k", &lines);
    drop(dying);
    replica.wait_for_sync_with(&primary);
    let before = offset(&mut client);
    wait_until(&mut client, ends + 200);
    assert_eq!(offset(&mut client), before);
    assert!([&bob, &carol, &dave].iter().all(|waiter| waiter.is_blocked(&mut client)));
    client.ask::<()>("CLIENT UNPAUSE");
    assert_eq!(bob.granted().owner, "bob");
    assert_eq!(dave.granted().owner, "dave");
    // The lease ended in the pause, in which it could not be renewed.
    assert_eq!(carol.granted().owner, "carol");
    assert!(offset(&mut client) > before);
    replica.wait_for_sync_with(&primary);
    let mut there = replica.client();
    for (key, owner) in [("k", "bob"), ("s", "carol"), ("d", "dave")] {
        assert_eq!(there.holder(key).unwrap().owner, owner);
    }
}

#[test]
fn a_release_in_the_step_that_pauses_is_handed_on() {
    let (server, mut client, mut bob) = Server::waited_for();
    let lines = ["CLIENT PAUSE 60000 WRITE", "LOCK.RELEASE k alice"];
    transaction(&mut client, &lines);
    assert_eq!(bob.granted().owner, "bob");
    let mut carol = server.client();
    carol.begin("LOCK.RELEASE k bob");
    client.ask::<()>("CLIENT UNPAUSE");
    assert_eq!(carol.finish(), Ok(redis::Value::Int(0)));
}

#[test]
fn a_waiters_time_is_up_in_a_pause_too() {
    let (server, mut client) = Server::held();
    let mut bob = Waiter::new(&server, "k", "OWNER bob BLOCK 1000");
    client.ask::<()>("CLIENT PAUSE 60000 WRITE");
    assert_eq!(bob.client.finish(), Ok(redis::Value::Nil));
}

#[test]
fn without_the_replicas_that_writes_need_nothing_is_granted() {
    let (server, mut client) = Server::held();
    client.acquire("held", "OWNER alice").unwrap();
    let mut bob = Waiter::new(&server, "k", "OWNER bob");
    let lines = ["LOCK.EXTEND k alice PX 300", "CONFIG SET min-replicas-to-write 1"];
    let ends = lease_end_after(&mut client, "k", &lines);
    for line in [
        "LOCK.ACQUIRE k OWNER bob",
        "LOCK.ACQUIRE k OWNER bob BLOCK 0",
        "LOCK.ACQUIRE held OWNER alice",
        "LOCK.RELEASE held alice",
        "LOCK.EXTEND held alice",
        "LOCK.BREAK held",
    ] {
        assert!(client.refused(line).starts_with("NOREPLICAS "), "{line}");
    }
    // In this time, the server has tried more than once.
    wait_until(&mut client, ends + 350);
    assert!(bob.is_blocked(&mut client));
    assert_eq!(client.holder("k"), None);
    assert_eq!(client.holder("held").unwrap().owner, "alice");
    client.ask::<()>("CONFIG SET min-replicas-to-write 0");
    soon("the grant", || client.holder("k").is_some_and(|holder| holder.owner == "bob"));
    assert_eq!(bob.granted().owner, "bob");
}

#[test]
fn a_disk_that_fails_only_delays_the_handover() {
    let (server, mut client) = Setup::new().set("save", "3600 1").start_and_client();
    client.acquire("k", "OWNER alice PX 600000").unwrap();
    let mut waiter = Waiter::new(&server, "k", "OWNER bob");
    // A folder with the file's name makes the save fail.
    std::fs::create_dir(server.folder().join("dump.rdb")).unwrap();
    client.ask::<()>("BGSAVE");
    wait_for("a failed save", || client.info("persistence", "rdb_last_bgsave_status") == "err");
    client.ask::<()>("CONFIG SET stop-writes-on-bgsave-error no");
    let lines = ["LOCK.EXTEND k alice PX 300", "CONFIG SET stop-writes-on-bgsave-error yes"];
    let ends = lease_end_after(&mut client, "k", &lines);
    // In this time, the server has refused it more than once.
    wait_until(&mut client, ends + 250);
    assert!(waiter.is_blocked(&mut client));
    assert_eq!(client.holder("k"), None);
    client.ask::<()>("CONFIG SET stop-writes-on-bgsave-error no");
    assert_eq!(waiter.granted().owner, "bob");
}
