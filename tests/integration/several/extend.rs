//! `LOCK.MEXTEND`: all leases, or none.

use super::{count, counted, holds, holds_one, is_refused};
use crate::support::{Client, Server, is_left_of};

#[track_caller]
fn leases(client: &mut Client, keys: [&str; 3]) -> [i64; 3] {
    keys.map(|key| client.holder(key).unwrap().lease)
}

#[test]
fn all_get_that_lease_from_now() {
    let (_server, mut client) = Server::and_client();
    holds(&mut client, "a b", "alice", "PX 100000");
    client.acquire("c", "OWNER alice PX 900000").unwrap();
    assert_eq!(client.ask::<i64>("LOCK.MEXTEND 3 c a b alice PX 300000"), 300_000);
    assert!(leases(&mut client, ["a", "b", "c"]).iter().all(|lease| (200_000..=300_000).contains(lease)));
    assert_eq!(client.ask::<i64>("LOCK.MEXTEND 3 a b c alice EX 50"), 50_000, "shorter too");
    assert_eq!(client.ask::<i64>("LOCK.MEXTEND 3 a b c alice"), 300_000, "the server's own");
    assert_eq!(count(&mut client, "lock_extensions"), 9);
}

#[test]
fn none_where_one_is_not_held() {
    let (_server, mut client) = Server::and_client();
    let fence = holds(&mut client, "a b", "alice", "PX 100000").fences[0];
    holds_one(&mut client, "bobs", "bob");
    holds_one(&mut client, "old", "alice");
    let not_held = |which: &str| format!("NOTHELD the lock is not held by this owner: {which}");
    let bobs = not_held("'bobs' is held by another owner");
    let free = not_held("'free' is free");
    for (keys, error) in [
        ("bobs a b", &bobs),
        ("a bobs b", &bobs),
        ("a b bobs free", &bobs),
        ("free a bobs", &free),
        ("a b free", &free),
    ] {
        is_refused(&mut client, &format!("LOCK.MEXTEND {} alice PX 700000", counted(keys)), error);
    }
    let error = not_held("'a' is held with another fence");
    is_refused(&mut client, "LOCK.MEXTEND 2 a b alice PX 700000 FENCE 1", &error);
    assert!(client.holder("a").unwrap().lease <= 100_000);
    is_refused(
        &mut client,
        &format!("LOCK.MEXTEND 3 a old b alice FENCE {fence} PX 700000"),
        &not_held("'old' is held with another fence"),
    );
    assert_eq!(count(&mut client, "lock_extensions"), 0);
    assert_eq!(client.ask::<i64>(&format!("LOCK.MEXTEND 2 a b alice FENCE {fence} PX 700000")), 700_000);
}

/// A greatest age cuts one of them short: the answer is the one that ends first.
#[test]
fn the_answer_is_the_first_end() {
    let (_server, mut client) = Server::and_client();
    let young = client.acquire("young", "OWNER alice PX 1000 MAXHOLD 50000").unwrap();
    holds(&mut client, "a b", "alice", "");
    let lease = client.ask::<i64>("LOCK.MEXTEND 3 a young b alice PX 400000");
    assert!((1000..=50_000).contains(&lease), "{lease}");
    assert!(is_left_of(50_000, &crate::support::Grant { lease, ..young }));
    assert!(client.holder("b").unwrap().lease > 300_000);
}
