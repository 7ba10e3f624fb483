//! What asynchronous replication lost with its primary, and what its successor makes of that.

use std::time::{Duration, Instant};

use super::awakening::assert_apart;
use crate::support::{Client, Proxy, Server, Setup, Waiter, grant, wait_for};

/// A primary whose effects can get lost, and its replica. The longest lease is 3 s, the grace 4 s.
struct Pair {
    old: Server,
    relay: Proxy,
    new: Server,
}

impl Pair {
    fn start() -> Self {
        let args = "lock.default-lease 3000 lock.max-lease 3000 lock.failover-grace 4000";
        let setup = Setup::new().module_args(args);
        let old = setup.clone().start();
        let relay = Proxy::to(old.port());
        let new = setup.set("replicaof", &format!("127.0.0.1 {}", relay.port())).start();
        new.wait_for_sync_with(&old);
        let mut client = old.client();
        wait_for("the end of the grace", || client.send("LOCK.ACQUIRE first OWNER x").is_ok());
        Self { old, relay, new }
    }

    /// The primary is killed, the replica takes its place.
    fn fail_over(&mut self) -> Client {
        self.old.kill();
        let mut client = self.new.client();
        client.ask::<()>("REPLICAOF NO ONE");
        client
    }
}

/// Takes the lock; until when the owner believes in it.
fn take(client: &mut Client, line: &str) -> Instant {
    let asked = Instant::now();
    let lease = client.acquire("k", line).unwrap().lease;
    asked + Duration::from_millis(lease.unsigned_abs())
}

#[test]
fn a_grant_lapses_before_the_next() {
    let mut pair = Pair::start();
    pair.relay.lose_effects(true);
    let until = take(&mut pair.old.client(), "OWNER alice");
    let mut client = pair.fail_over();
    assert_eq!(client.holder("k"), None, "the grant is lost");
    let error = client.refused("LOCK.ACQUIRE k OWNER bob");
    assert!(error.starts_with("GRACE new grants resume in "), "{error}");
    let next = Waiter::new(&pair.new, "k", "OWNER bob").client.finish().unwrap();
    assert_eq!(grant(next).unwrap().owner, "bob");
    assert_apart(Some(until), Instant::now());
}

#[test]
fn an_extension_lapses_before_the_next_grant() {
    let mut pair = Pair::start();
    let mut client = pair.old.client();
    client.acquire("k", "OWNER alice PX 1500").unwrap();
    pair.new.wait_for_sync_with(&pair.old);
    pair.relay.lose_effects(true);
    let asked = Instant::now();
    let lease: u64 = client.ask("LOCK.EXTEND k alice PX 3000");
    pair.fail_over();
    let next = Waiter::new(&pair.new, "k", "OWNER bob").client.finish().unwrap();
    assert_eq!(grant(next).unwrap().owner, "bob");
    assert_apart(Some(asked + Duration::from_millis(lease)), Instant::now());
}

#[test]
fn a_release_is_undone_until_the_lease_ends_or_it_is_released_again() {
    let mut pair = Pair::start();
    let mut client = pair.old.client();
    let until = take(&mut client, "OWNER alice");
    client.acquire("l", "OWNER alice").unwrap();
    pair.new.wait_for_sync_with(&pair.old);
    pair.relay.lose_effects(true);
    assert_eq!(client.ask::<i64>("LOCK.RELEASE k alice"), 0);
    assert_eq!(client.ask::<i64>("LOCK.RELEASE l alice"), 0);
    let mut client = pair.fail_over();
    assert_eq!(client.holder("k").unwrap().owner, "alice");
    assert_eq!(client.ask::<i64>("LOCK.RELEASE l alice"), 0);
    let next = Waiter::new(&pair.new, "k", "OWNER bob").client.finish().unwrap();
    assert_eq!(grant(next).unwrap().owner, "bob");
    assert_apart(Some(until), Instant::now());
}
