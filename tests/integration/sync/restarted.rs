//! A replica has confirmed a grant, and is killed before it is promoted: it then has only what is in its files. The primary ends first, so
//! the replica can't copy the data set from it.

use super::{confirmed, in_step};
use crate::support::{Client, Grant, Server, Setup, figure, size};

/// Returns a primary with a lock, and a replica that has just copied it.
fn filled(setup: Setup) -> (Server, Server) {
    let primary = Server::start();
    primary.client().acquire("other", "PX 600000").unwrap();
    let replica = primary.replica_with(setup);
    in_step(&primary, 1);
    (primary, replica)
}

/// Returns a grant that the replica has confirmed, and a client of the replica, which was killed, restarted and promoted.
fn restarted((mut primary, mut replica): (Server, Server)) -> (Grant, Client, Server) {
    let told = confirmed(&mut primary.client(), "OWNER alice PX 60000 SYNC 1 1000");
    primary.kill();
    replica.kill_and_restart();
    let mut client = replica.client();
    client.ask::<()>("REPLICAOF NO ONE");
    (told, client, replica)
}

fn with_aof(fsync: &str) -> Setup {
    Setup::new().set("appendonly", "yes").set("appendfsync", fsync)
}

/// Tests the limit that docs/operations/failover.md names: if this fails, the page promises too little.
#[test]
fn a_replica_without_files_has_forgotten_what_it_confirmed() {
    let (told, mut client, _replica) = restarted(filled(Setup::new()));
    let other = client.acquire("k", "OWNER bob").expect("the lock is free");
    assert!(other.fence > told.fence, "{other:?} after {told:?}");
}

#[test]
fn a_replica_with_an_append_only_file_has_what_it_confirmed() {
    let rounds = size(2, 50);
    for round in 0..rounds {
        let fsync = ["everysec", "always"][round % 2];
        let servers = filled(with_aof(fsync));
        servers.1.client().wait_for_rewrite();
        let (told, mut client, _replica) = restarted(servers);
        assert!(client.acquire("k", "OWNER bob").is_none(), "round {round}, appendfsync {fsync}");
        let again = client.acquire("k", "OWNER alice ONCE").unwrap();
        assert_eq!((again.fence, again.holds), (told.fence, 1), "round {round}, appendfsync {fsync}");
    }
    figure(
        "SYNC, a replica with an append-only file killed and promoted",
        format_args!("{rounds}, all have the grant"),
    );
}

/// Tests another limit on that page: after a full copy, a replica's old AOF stays until the rewrite has finished. Valkey 9.1 does not
/// rewrite it: its AOF begins with the primary's data.
#[test]
fn a_replica_that_rewrites_its_append_only_file_has_forgotten_what_it_confirmed() {
    let (primary, replica) = filled(with_aof("always").set("rdb-key-save-delay", "10000000"));
    let rewrites = replica.client().info("persistence", "aof_rewrite_in_progress") == "1";
    let (told, mut client, _replica) = restarted((primary, replica));
    match client.acquire("k", "OWNER bob") {
        Some(other) => assert!(rewrites && other.fence > told.fence, "{other:?} after {told:?}"),
        None => assert!(!rewrites),
    }
}

#[test]
fn with_a_grace_a_replica_without_files_grants_nothing_new() {
    let (_, mut client, _replica) = restarted(filled(Setup::new().module_args("lock.failover-grace 60000")));
    let refused = client.refused("LOCK.ACQUIRE k OWNER bob");
    assert!(refused.starts_with("GRACE "), "{refused}");
}
