//! For whom a free lock is reserved, and what the counters show.

use std::collections::HashMap;

use redis::Value;

use super::{count, granted, holds, holds_one, release, take, waits, waits_for_one};
use crate::support::{Client, Server, owners, queue};

/// Returns what is shown of a lock that nobody holds: for whom it is reserved, and how many clients wait.
#[track_caller]
fn reserved(client: &mut Client, key: &str) -> Option<(String, String)> {
    let info = client.lock_info(key)?;
    assert!(["owner", "fence", "mode"].iter().all(|field| !info.contains_key(*field)), "{info:?}");
    assert_eq!(info["holders"], "0");
    Some((info["reserved-for"].clone(), info["waiters"].clone()))
}

fn for_one(owner: &str, waiters: i64) -> Option<(String, String)> {
    Some((owner.into(), waiters.to_string()))
}

#[test]
fn a_reserved_lock_is_told_as_such() {
    let server = Server::start();
    for mut client in [server.client(), server.client_resp3()] {
        holds_one(&mut client, "a", "alice");
        assert_eq!(client.lock_info("free"), None);
        let first = waits(&server, "a free", "bob", "");
        assert_eq!(reserved(&mut client, "free"), for_one("bob", 1));
        let mut second = waits_for_one(&server, "free", "carol");
        assert_eq!(reserved(&mut client, "free"), for_one("bob", 2));
        assert_eq!(owners(&mut client, "free"), ["bob", "carol"]);
        assert_eq!(queue(&mut client, "free")[0].id, first.id);
        let info: HashMap<String, Value> = client.ask("LOCK.INFO free FULL");
        assert_eq!(info["grants"], Value::Array(vec![]));
        assert!(!client.lock_info("a").unwrap().contains_key("reserved-for"), "held");
        drop(first);
        second.granted();
        assert!(!client.lock_info("free").unwrap().contains_key("reserved-for"));
        client.ask::<()>("FLUSHALL");
    }
}

/// A wait for several locks counts once in the buckets of wait times.
#[test]
fn a_wait_for_several_locks_counts_once() {
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
