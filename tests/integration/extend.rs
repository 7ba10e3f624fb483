//! Extending a lease.

use redis::Value;

use crate::support::{Server, transaction, wait_for, wait_until};

const NOT_HELD: &str = "NOTHELD the lock is not held by this owner";

#[test]
fn the_owner_sets_the_lease_longer_or_shorter() {
    let server = Server::start();
    let mut client = server.client();
    let fence = client.acquire("k", "OWNER alice PX 60000").unwrap().fence;
    let beyond = client.ttl_beyond_lease();
    for (line, lease) in [
        ("LOCK.EXTEND k alice PX 90000", 90_000),
        ("LOCK.EXTEND k alice ex 7", 7000),
        ("LOCK.EXTEND k alice", 30_000),
        (&format!("LOCK.EXTEND k alice FENCE {fence} PX 5000"), 5000),
        (&format!("LOCK.EXTEND k alice px 6000 fence {fence}"), 6000),
    ] {
        assert_eq!(client.ask::<i64>(line), lease, "{line}");
        let left: i64 = client.ask("PTTL k");
        assert!(left > lease - 3000 && left <= lease + beyond, "{line}: {left}");
    }
    let holder = client.holder("k").unwrap();
    assert_eq!((holder.fence, holder.holds), (fence, 1));
}

#[test]
fn an_extension_keeps_the_holds() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire("k", "OWNER alice").unwrap();
    client.acquire("k", "OWNER alice").unwrap();
    client.ask::<()>("LOCK.EXTEND k alice PX 60000");
    assert_eq!(client.holder("k").unwrap().holds, 2);
}

#[test]
fn an_extended_lock_outlives_its_first_lease() {
    let server = Server::start();
    let mut client = server.client();
    // In one step, or the first lease might end in between.
    let lines = ["LOCK.ACQUIRE k OWNER alice PX 200", "LOCK.EXTEND k alice PX 60000"];
    assert_eq!(transaction(&mut client, &lines)[1], Ok(Value::Int(60_000)));
    let fence = client.holder("k").unwrap().fence;
    wait_until(&mut client, fence / 1000 + 210);
    assert_eq!(client.holder("k").unwrap().owner, "alice");
    assert_eq!(client.acquire("k", "OWNER bob"), None);
}

#[test]
fn an_extension_by_anybody_else_or_of_a_free_lock_is_refused() {
    let server = Server::start();
    let mut client = server.client();
    assert_eq!(client.refused("LOCK.EXTEND k alice"), NOT_HELD);
    assert_eq!(client.ask::<i64>("EXISTS k"), 0);
    let fence = client.acquire("k", "OWNER alice PX 60000").unwrap().fence;
    let before = client.snapshot();
    assert_eq!(client.refused("LOCK.EXTEND k bob PX 90000"), NOT_HELD);
    for other in [1, fence - 1, fence + 1, 1 << 53, i64::MAX] {
        assert_eq!(client.refused(&format!("LOCK.EXTEND k alice PX 90000 FENCE {other}")), NOT_HELD);
    }
    assert_eq!(client.snapshot(), before);
}

#[test]
fn a_lapsed_lock_can_not_be_extended() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire("k", "OWNER alice PX 1").unwrap();
    wait_for("the lease to lapse", || client.ask::<i64>("PTTL k") == -2);
    assert_eq!(client.refused("LOCK.EXTEND k alice PX 60000"), NOT_HELD);
    assert_eq!(client.holder("k"), None);
}
