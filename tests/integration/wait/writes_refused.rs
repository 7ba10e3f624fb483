//! A handover by timer that the server refuses, as it refuses any write then, is made as soon as the server allows it.

use crate::support::{Client, Server, Setup, Waiter, lease_end_after, server_time, wait_for, wait_until};

/// The lock has lapsed, and the server has refused to hand it over more than once.
#[track_caller]
fn refused_for_a_while(client: &mut Client, waiter: &Waiter) {
    wait_for("the lapse", || client.holder("k").is_none());
    let now = server_time(client);
    wait_until(client, now + 250);
    assert!(waiter.is_blocked(client));
    assert_eq!(client.holder("k"), None);
}

#[test]
fn too_few_replicas_only_delay_it() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire("k", "OWNER alice").unwrap();
    let mut waiter = Waiter::new(&server, "k", "OWNER bob");
    let lines = ["LOCK.EXTEND k alice PX 300", "CONFIG SET min-replicas-to-write 1"];
    lease_end_after(&mut client, "k", &lines);
    refused_for_a_while(&mut client, &waiter);
    client.ask::<()>("CONFIG SET min-replicas-to-write 0");
    assert_eq!(waiter.granted().owner, "bob");
}

#[test]
fn a_disk_that_fails_only_delays_it() {
    let server = Setup::new().set("save", "3600 1").start();
    let mut client = server.client();
    client.acquire("k", "OWNER alice PX 3000").unwrap();
    let mut waiter = Waiter::new(&server, "k", "OWNER bob");
    // A folder in the place of the file.
    std::fs::create_dir(server.folder().join("dump.rdb")).unwrap();
    client.ask::<()>("BGSAVE");
    wait_for("a failed save", || client.info("persistence", "rdb_last_bgsave_status") == "err");
    refused_for_a_while(&mut client, &waiter);
    client.ask::<()>("CONFIG SET stop-writes-on-bgsave-error no");
    assert_eq!(waiter.granted().owner, "bob");
}
