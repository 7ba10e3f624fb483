//! Replicas disconnect and connect while a grant is unconfirmed.

use super::{NO_REPLICAS, Pair, becomes_free, in_step, told, unconfirmed};
use crate::support::{Proxy, Server, Setup, Waiter, server_time, wait_for, wait_until, wake};

#[test]
fn a_killed_replica_confirms_nothing() {
    let mut pair = Pair::stopped();
    let mut alice = unconfirmed(&pair.primary, "LOCK.ACQUIRE k OWNER alice PX 60000 SYNC 1 1000");
    let mut bob = Waiter::new(&pair.primary, "k", "OWNER bob");
    pair.replica.kill();
    assert_eq!(alice.client.finish(), Err(NO_REPLICAS.into()));
    assert_eq!(bob.granted().owner, "bob");
}

#[test]
fn a_killed_replica_confirms_when_it_is_back() {
    let mut pair = Pair::stopped();
    let mut alice = unconfirmed(&pair.primary, "LOCK.ACQUIRE k OWNER alice PX 60000 SYNC 1 25000");
    pair.replica.kill_and_restart();
    assert_eq!(told(&mut alice).owner, "alice");
    assert_eq!(pair.replica.client().holder("k").unwrap().owner, "alice");
}

#[test]
fn a_replica_whose_link_breaks_confirms_by_the_next_link() {
    let pair = Pair::stopped();
    let mut alice = unconfirmed(&pair.primary, "LOCK.ACQUIRE k OWNER alice PX 60000 SYNC 1 25000");
    let mut client = pair.primary.client();
    assert_eq!(client.ask::<i64>("CLIENT KILL TYPE replica"), 1);
    wake(&pair.replica);
    assert_eq!(told(&mut alice).owner, "alice");
    assert_eq!(client.info("stats", "sync_partial_ok"), "1");
}

#[test]
fn a_new_replica_confirms_what_it_is_sent_first() {
    let primary = Server::start();
    let mut alice = unconfirmed(&primary, "LOCK.ACQUIRE k OWNER alice PX 60000 SYNC 1 25000");
    let replica = primary.replica();
    let granted = told(&mut alice);
    assert_eq!(replica.client().holder("k").unwrap().fence, granted.fence);
}

/// The primary has not noticed yet that the old link is dead.
#[test]
fn a_replica_with_two_links_counts_once() {
    let primary = Server::start();
    let relay = Proxy::to(primary.port());
    let replica = Setup::new().set("replicaof", &format!("127.0.0.1 {}", relay.port())).start();
    in_step(&primary, 1);
    relay.hide_ends();
    let mut client = primary.client();
    let mut alice = unconfirmed(&primary, "LOCK.ACQUIRE k OWNER alice PX 60000 SYNC 2 4000");
    let fence = client.holder("k").unwrap().fence;
    // The replica has confirmed this through its first link.
    wait_for("the grant on the replica", || {
        replica.client().holder("k").is_some_and(|held| held.fence == fence)
    });
    let now = server_time(&mut client);
    wait_until(&mut client, now + 100);
    assert_eq!(replica.client().ask::<i64>("CLIENT KILL TYPE master"), 1);
    wait_for("two links", || client.info("replication", "connected_slaves") == "2");
    assert_eq!(alice.client.finish(), Err(NO_REPLICAS.into()));
    becomes_free(&mut client, "k");
}
