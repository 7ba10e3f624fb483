//! Extending a lease.

use crate::support::Server;

#[test]
fn the_owner_sets_the_lease_longer_or_shorter() {
    let (_server, mut client) = Server::and_client();
    let fence = client.acquire("k", "OWNER alice PX 60000").unwrap().fence;
    let beyond = client.ttl_beyond_lease();
    for (line, lease) in [
        ("LOCK.EXTEND k alice PX 90000", 90_000),
        ("LOCK.EXTEND k alice ex 7", 7000),
        ("LOCK.EXTEND k alice", 300_000),
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
