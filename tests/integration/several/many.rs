//! Many locks at once. What stays of waits for several is in `memory`: nothing.

use super::{count, granted, grants, holds, release, take, waits};
use crate::support::Server;

fn names(count: usize) -> String {
    (0..count).map(|n| format!("k{n}")).collect::<Vec<_>>().join(" ")
}

/// They get free one by one, in any order, with many who wait for many.
#[test]
fn a_thousand_locks_that_are_freed_one_by_one() {
    let (server, mut client) = Server::and_client();
    let keys = names(1000);
    holds(&mut client, &keys, "alice", "");
    let mut waiters: Vec<_> = (0..10).map(|n| waits(&server, &keys, &format!("o{n}"), "")).collect();
    let lines: Vec<_> = (0..1000).map(|n| format!("LOCK.RELEASE k{} alice", n * 7 % 1000)).collect();
    client.ask_all::<i64, _>(&lines);
    for (n, waiter) in waiters.iter_mut().enumerate() {
        let reply = grants(waiter.client.finish().unwrap()).unwrap();
        assert_eq!((&reply.owner, &reply.holds[..]), (&format!("o{n}"), &[1; 1000][..]));
        release(&mut client, &keys, &reply.owner);
    }
    assert_eq!((client.ask::<i64>("DBSIZE"), count(&mut client, "lock_waiters")), (0, 0));
}

/// How long a wait for several takes goes into the same buckets, once.
#[test]
fn the_counters_are_plausible() {
    let (server, mut client) = Server::and_client();
    holds(&mut client, "a b", "alice", "");
    let mut waiter = waits(&server, "a b c", "bob", "");
    assert_eq!(take(&mut client, "c d", "late", ""), None);
    release(&mut client, "a b", "alice");
    granted(&mut waiter);
    holds(&mut client, "a", "bob", "");
    let expected = [
        ("lock_grants", 5),
        ("lock_grants_shared", 0),
        ("lock_reentries", 1),
        ("lock_refusals", 1),
        ("lock_handovers", 3),
        ("lock_releases", 2),
        ("lock_keys", 3),
        ("lock_waiters", 0),
        ("lock_waits_all", 1),
        ("lock_timeouts", 0),
    ];
    for (field, value) in expected {
        assert_eq!(count(&mut client, field), value, "{field}");
    }
}
