//! A session passes from one connection to another, and what remains of it after a crash of the server.

use crate::support::{Server, Setup, Waiter, grant, soon, wait_for};

fn with_files() -> [Setup; 2] {
    let aof = Setup::new().set("appendonly", "yes").set("appendfsync", "always");
    [Setup::new().set("save", "3600 1"), aof]
}

/// The server ends with the session; the saved lease then ends by itself.
#[test]
fn after_the_servers_death_the_lease_ends_by_itself() {
    for (way, setup) in with_files().into_iter().enumerate() {
        let mut server = setup.start();
        let mut alice = server.client();
        alice.acquire("k", "OWNER alice PX 4000 SESSION").unwrap();
        alice.acquire("k", "OWNER alice PX 4000").unwrap();
        if way == 0 {
            alice.ask::<()>("SAVE");
        }
        server.kill_and_restart();
        let mut client = server.client();
        let holder = client.holder("k").expect("the lease goes on");
        assert_eq!((&holder.owner[..], holder.holds), ("alice", 2));
        assert_eq!(client.lock_info("k").unwrap()["session"], "0");
        let ends: i64 = client.ask("PEXPIRETIME k");
        let mut bob = Waiter::new(&server, "k", "OWNER bob");
        let granted = grant(bob.client.finish().unwrap()).unwrap();
        assert!(granted.granted_at() >= ends && granted.fence > holder.fence, "{granted:?} {ends}");
    }
}

#[test]
fn an_owner_that_comes_back_keeps_its_grant() {
    for (way, setup) in with_files().into_iter().enumerate() {
        let mut server = setup.start();
        let mut alice = server.client();
        let granted = alice.acquire("k", "OWNER alice PX 4000 SESSION").unwrap();
        alice.acquire("k", "OWNER alice SESSION PX 4000").unwrap();
        if way == 0 {
            alice.ask::<()>("SAVE");
        }
        server.kill_and_restart();
        let (mut alice, mut client) = (server.client(), server.client());
        let again = alice.acquire("k", "OWNER alice ONCE SESSION PX 300").unwrap();
        assert_eq!((again.fence, again.holds), (granted.fence, 2));
        let ends: i64 = client.ask("PEXPIRETIME k");
        wait_for("a renewal", || client.ask::<i64>("PEXPIRETIME k") > ends);
        assert_eq!(client.holder("k").map(|holder| holder.fence), Some(granted.fence));
        let mut bob = Waiter::new(&server, "k", "OWNER bob");
        drop(alice);
        assert!(bob.granted().fence > granted.fence);
    }
}

#[test]
fn a_promoted_replica_lets_the_lease_end_and_takes_the_owner_back() {
    let primary = Server::start();
    let replica = primary.replica();
    let mut alice = primary.client();
    let granted = alice.acquire("k", "OWNER alice PX 20000 SESSION").unwrap();
    let lost = alice.acquire("lost", "OWNER alice PX 3000 SESSION").unwrap();
    replica.wait_for_sync_with(&primary);
    drop(primary);
    let (mut alice, mut client) = (replica.client(), replica.client());
    client.ask::<()>("REPLICAOF NO ONE");
    let again = alice.acquire("k", "OWNER alice ONCE SESSION PX 20000").unwrap();
    assert_eq!((again.fence, again.holds), (granted.fence, 1));
    let mut bob = Waiter::new(&replica, "lost", "OWNER bob");
    let granted = grant(bob.client.finish().unwrap()).unwrap();
    assert!(granted.fence > lost.fence);
    drop(alice);
    soon("a free lock", || client.holder("k").is_none());
}
