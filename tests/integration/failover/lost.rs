//! Effects that were lost with the primary because replication is asynchronous, and how the successor copes. The model
//! `a_failover_with_a_grace_keeps_owners_apart` also tries extensions.

use std::time::{Duration, Instant};

use super::awakening::assert_apart;
use crate::support::{Proxy, Setup, Waiter, grant, wait_for};

#[test]
fn a_grant_lapses_before_the_next_and_a_release_is_undone_until_the_lease_ends() {
    let args = "lock.default-lease 3000 lock.max-lease 3000 lock.failover-grace 4000";
    let setup = Setup::new().module_args(args);
    let (mut old, mut client) = setup.clone().start_and_client();
    let relay = Proxy::to(old.port());
    let (new, mut successor) =
        setup.set("replicaof", &format!("127.0.0.1 {}", relay.port())).start_and_client();
    new.wait_for_sync_with(&old);
    wait_for("the end of the grace", || client.send("LOCK.ACQUIRE first OWNER x").is_ok());
    for key in ["released", "again"] {
        client.acquire(key, "OWNER alice").unwrap();
    }
    new.wait_for_sync_with(&old);
    relay.lose_effects(true);
    for key in ["released", "again"] {
        client.ask::<i64>(&format!("LOCK.RELEASE {key} alice"));
    }
    let asked = Instant::now();
    let lease = client.acquire("k", "OWNER alice").unwrap().lease;
    old.kill();
    successor.ask::<()>("REPLICAOF NO ONE");
    assert_eq!(successor.holder("k"), None, "the grant is lost");
    assert_eq!(successor.holder("released").unwrap().owner, "alice");
    assert_eq!(successor.ask::<i64>("LOCK.RELEASE again alice"), 0);
    let error = successor.refused("LOCK.ACQUIRE k OWNER bob");
    assert!(error.starts_with("GRACE new grants resume in "), "{error}");
    for mut waiter in ["released", "k"].map(|key| Waiter::new(&new, key, "OWNER bob")) {
        assert_eq!(grant(waiter.client.finish().unwrap()).unwrap().owner, "bob");
    }
    assert_apart(Some(asked + Duration::from_millis(lease.unsigned_abs())), Instant::now());
}
