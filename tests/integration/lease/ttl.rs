//! The lease is the key's TTL: its value, who can change it, and that it never ends early.

use std::time::Instant;

use crate::support::Server;

#[test]
fn the_lease_is_the_ttl_of_the_key() {
    let (_server, mut client) = Server::and_client();
    let beyond = client.ttl_beyond_lease();
    for (options, lease) in [("EX 60", 60_000), ("PX 61234", 61_234), ("px 1", 1)] {
        client.ask::<()>("DEL k");
        let began = Instant::now();
        assert_eq!(client.acquire("k", options).unwrap().lease, lease);
        let left: i64 = client.ask("PTTL k");
        let passed = began.elapsed().as_millis() as i64 + 1;
        assert!(
            left <= lease + beyond && (left >= lease - passed || left == -2 && passed >= lease),
            "{options}: {left}"
        );
    }
}

#[test]
fn the_longest_lease_there_is_works() {
    let (_server, mut client) = Server::and_client();
    let grant = client.acquire("k", "PX 9007199254740991").unwrap();
    assert_eq!(grant.lease, 9_007_199_254_740_991);
    assert_eq!(client.acquire("l", "EX 9007199254740").unwrap().lease, 9_007_199_254_740_000);
    let again = client.acquire("k", &format!("OWNER {}", grant.owner)).unwrap();
    assert!(again.lease > 9_007_199_254_000_000, "{again:?}");
}

#[test]
fn a_lease_without_end_is_minus_1_and_stays_so_on_a_reentry() {
    let (_server, mut client) = Server::and_client();
    client.acquire("k", "OWNER alice PX 60000").unwrap();
    assert_eq!(client.ask::<i64>("PERSIST k"), 1);
    assert_eq!(client.holder("k").unwrap().lease, -1);
    let again = client.acquire("k", "OWNER alice PX 60000").unwrap();
    assert_eq!((again.holds, again.lease), (2, -1));
    assert_eq!(client.ask::<i64>("PTTL k"), -1);
    assert_eq!(client.acquire("k", "OWNER bob"), None);
    assert_eq!(client.ask::<i64>("LOCK.EXTEND k alice PX 60000"), 60_000);
    assert_eq!(client.ask::<i64>("LOCK.RELEASE k alice ALL"), 0);
}

#[test]
fn a_lease_above_the_cap_is_refused_and_the_default_is_cut_to_it() {
    let (_server, mut client) = Server::and_client();
    client.acquire("held", "OWNER alice PX 60000").unwrap();
    client.ask::<()>("CONFIG SET lock.max-lease 2000");
    let before = client.snapshot();
    let error = "ERR value is out of range, the lease must be between 1 and 2000 ms (lock.max-lease)";
    for line in [
        "LOCK.ACQUIRE k PX 2001",
        "LOCK.ACQUIRE k EX 3",
        "LOCK.ACQUIRE held OWNER alice PX 2001",
        "LOCK.EXTEND held alice PX 2001",
        "LOCK.EXTEND held alice EX 3",
    ] {
        assert_eq!(client.refused(line), error, "{line}");
    }
    assert_eq!(client.snapshot(), before);
    assert_eq!(client.acquire("k", "PX 2000").unwrap().lease, 2000);
    assert_eq!(client.acquire("l", "").unwrap().lease, 2000);
    assert_eq!(client.ask::<i64>("LOCK.EXTEND held alice"), 2000);
    client.ask::<()>("CONFIG SET lock.max-lease 0");
    assert_eq!(client.acquire("m", "PX 2001").unwrap().lease, 2001);
}
