//! `LOCK.MEXTEND`: all leases, or none.

use super::{count, counted, holds, holds_one, is_refused};
use crate::support::Server;

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
