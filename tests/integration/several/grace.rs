//! `lock.failover-grace`: nothing new within it, and all at its end.

use super::{ask, count, free, granted, grants, holders, holds, holds_one, release, waits};
use crate::support::{Server, Setup, transaction};

const GRACE: &str = "GRACE new grants resume in ";

/// After a start with the locks of a file, and after a promotion.
#[test]
fn after_a_start_and_a_failover() {
    let setup = || Setup::new().module_args("failover-grace 600000");
    let mut server = setup().start();
    let mut client = server.client();
    client.ask::<()>("CONFIG SET lock.failover-grace 0");
    let all = holds(&mut client, "a b", "alice", "");
    client.ask::<()>("SAVE");
    let replica = server.replica_with(setup());
    server.kill_and_restart();
    replica.client().ask::<()>("REPLICAOF NO ONE");
    for server in [&server, &replica] {
        let mut client = server.client();
        assert!(client.refused(&ask("a c", "alice", "")).starts_with(GRACE));
        let again = holds(&mut client, "b a", "alice", "ONCE");
        assert_eq!((again.fences, again.holds), (all.fences.clone(), vec![1, 1]));
        let mut waiter = waits(server, "a b c", "bob", "");
        release(&mut client, "a b", "alice");
        assert!(waiter.is_blocked(&mut client));
        client.ask::<()>("CONFIG SET lock.failover-grace 0");
        assert!(granted(&mut waiter).fences[0] > all.fences[0]);
        assert_eq!(count(&mut client, "lock_waiters"), 0);
    }
}

/// The clients are paused by an operator: the handover comes when that is over.
#[test]
fn a_pause_keeps_it_waiting() {
    let (server, mut client) = Server::and_client();
    holds(&mut client, "a b", "alice", "");
    let waiter = waits(&server, "a b", "bob", "");
    transaction(&mut client, &["LOCK.MEXTEND 2 a b alice PX 300", "CLIENT PAUSE 100000 WRITE"]);
    crate::support::wait_for("the lapse", || holders(&mut client, ["a", "b"]) == ["-", "-"]);
    assert!(waiter.is_blocked(&mut client));
    client.ask::<()>("CLIENT UNPAUSE");
    let mut waiter = waiter;
    assert_eq!(grants(waiter.client.finish().unwrap()).unwrap().holds, [1, 1]);
    free(&mut client, "a", "bob");
}

/// What the server would refuse as a write it refuses the handover too, and makes it afterwards.
#[test]
fn too_few_replicas_only_delay_it() {
    let (server, mut client) = Server::and_client();
    holds_one(&mut client, "a", "alice");
    holds_one(&mut client, "b", "alice");
    let mut waiter = waits(&server, "a b", "bob", "");
    free(&mut client, "a", "alice");
    transaction(&mut client, &["PEXPIRE b 300", "CONFIG SET min-replicas-to-write 1"]);
    crate::support::wait_for("the lapse", || holders(&mut client, ["b"]) == ["-"]);
    let now = crate::support::server_time(&mut client);
    crate::support::wait_until(&mut client, now + 250);
    assert!(waiter.is_blocked(&mut client));
    client.ask::<()>("CONFIG SET min-replicas-to-write 0");
    granted(&mut waiter);
}
