//! A session that goes from one connection to another, and what a server's death leaves of it.

use crate::support::{
    Client, Server, Setup, Waiter, grant, owners, server_time, soon, transaction, wait_until, wait_until_gone,
};

struct Taken {
    server: Server,
    client: Client,
    first: Waiter,
    second: Client,
    fence: i64,
}

/// Alice held `k` in a session of her first connection, and has taken it over with the second.
#[track_caller]
fn taken_over() -> Taken {
    let (server, [mut first, mut second, client]) = Server::and_clients();
    let id = first.ask("CLIENT ID");
    let fence = first.acquire("k", "OWNER alice PX 900 SESSION").unwrap().fence;
    let again = second.acquire("k", "OWNER alice ONCE PX 900 SESSION").unwrap();
    assert_eq!((again.fence, again.holds), (fence, 1));
    Taken { server, client, first: Waiter { client: first, id }, second, fence }
}

#[test]
fn after_a_takeover_the_end_of_the_first_connection_changes_nothing() {
    let Taken { server, mut client, first, second: _second, fence } = taken_over();
    let _bob = Waiter::new(&server, "k", "OWNER bob");
    let id = first.id;
    drop(first);
    wait_until_gone(&mut client, id);
    let later = server_time(&mut client) + 1300;
    wait_until(&mut client, later);
    assert_eq!(client.holder("k").unwrap().fence, fence);
    assert_eq!(owners(&mut client, "k"), ["bob"]);
    assert_eq!(client.lock_info("k").unwrap()["session"], "1");
}

/// The second connection comes in the very step in which the first is granted, which is told only after it.
#[test]
fn a_session_is_taken_over_from_a_waiter_that_is_still_to_be_told() {
    for options in ["SESSION", "SESSION ONCE"] {
        let (server, [mut client, mut second]) = Server::and_clients();
        client.acquire("k", "OWNER alice PX 600000").unwrap();
        let mut first = Waiter::new(&server, "k", "OWNER bob PX 600000 SESSION");
        let again = format!("LOCK.ACQUIRE k OWNER bob PX 600000 {options}");
        transaction(&mut second, &["LOCK.RELEASE k alice", &again]);
        let granted = first.granted();
        let id = first.id;
        drop(first);
        wait_until_gone(&mut client, id);
        assert_eq!(client.holder("k").map(|holder| holder.fence), Some(granted.fence));
        assert_eq!(client.lock_info("k").unwrap()["session"], "1");
        drop(second);
        soon("a free lock", || client.holder("k").is_none());
    }
}

/// A waiter is told of a grant that has ended in the same step: there is nothing for its connection to keep alive.
#[test]
fn a_grant_that_ended_before_its_waiter_was_told_has_no_session() {
    for next in ["PING", "LOCK.ACQUIRE k OWNER carol PX 600000"] {
        let (server, mut client) = Server::held();
        let mut bob = Waiter::new(&server, "k", "OWNER bob PX 600000 SESSION");
        transaction(&mut client, &["LOCK.RELEASE k alice", "LOCK.RELEASE k bob", next]);
        bob.granted();
        soon("no session", || client.info("lock", "lock_sessions") == "0");
    }
}

fn with_files() -> [Setup; 2] {
    let aof = Setup::new().set("appendonly", "yes").set("appendfsync", "always");
    [Setup::new().set("save", "3600 1"), aof]
}

/// The server dies with the session; the lease, which it saved, ends by itself.
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
        wait_until(&mut client, ends + 300);
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
