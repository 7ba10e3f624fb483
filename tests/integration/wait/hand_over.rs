//! Whatever ends a grant hands the lock to the next waiter at once, with a higher fence.

use redis::Value;

use crate::support::{HELD_BY_ANOTHER, Server, Waiter, blocked_clients, grant, is_left_of, owners};

/// Alice holds `k` for ten minutes and bob waits for it. Checks that bob has it after these commands.
#[track_caller]
fn hands_over(lines: &[&str]) {
    println!("{lines:?}");
    let (server, [mut client, mut actor]) = Server::and_clients();
    let first = client.acquire("k", "OWNER alice PX 600000").unwrap();
    let mut bob = Waiter::new(&server, "k", "OWNER bob PX 60000");
    assert_eq!(owners(&mut client, "k"), ["bob"]);
    for line in lines {
        actor.ask::<Value>(line);
    }
    let second = bob.granted();
    assert_eq!((second.owner.as_str(), second.holds), ("bob", 1));
    assert!(is_left_of(60_000, &second), "{second:?}");
    assert!(second.fence > first.fence, "{first:?} {second:?}");
    assert_eq!(client.holder("k").unwrap().fence, second.fence);
    assert_eq!(owners(&mut client, "k"), [""; 0]);
    assert_eq!(blocked_clients(&mut client), 0);
    assert_eq!(client.refused("LOCK.RELEASE k alice"), HELD_BY_ANOTHER);
    assert_eq!(client.ask::<i64>("LOCK.RELEASE k bob"), 0);
    assert_eq!(client.holder("k"), None);
}

#[test]
fn whatever_ends_a_grant_serves_the_next() {
    let ends: [&[&str]; 24] = [
        &["LOCK.RELEASE k alice"],
        &["LOCK.ACQUIRE k OWNER alice", "LOCK.RELEASE k alice", "LOCK.RELEASE k alice"],
        &["LOCK.ACQUIRE k OWNER alice", "LOCK.RELEASE k alice ALL"],
        &["LOCK.BREAK k"],
        &["LOCK.EXTEND k alice PX 20"],
        &["DEL k"],
        &["DEL other k another"],
        &["UNLINK k"],
        &["EXPIRE k 0"],
        &["PEXPIRE k -1"],
        &["PEXPIREAT k 1"],
        &["PEXPIRE k 20"],
        &["PERSIST k", "PEXPIRE k 20"],
        &["FLUSHDB"],
        &["FLUSHDB ASYNC"],
        &["FLUSHALL"],
        &["FLUSHALL ASYNC"],
        &["RENAME k other"],
        &["RENAMENX k other"],
        &["MOVE k 1"],
        &["SWAPDB 0 1"],
        &["SWAPDB 3 0"],
        &["MULTI", "SET k text", "DEL k", "EXEC"],
        &["SUNIONSTORE k nothing"],
    ];
    ends.into_iter().for_each(hands_over);
}

/// The server evicts the key, and the next waiter gets the lock.
#[test]
fn an_eviction_serves_the_next() {
    for policy in ["volatile-ttl", "allkeys-random", "volatile-lru"] {
        let (server, mut client) = Server::and_client();
        client.ask::<()>(&format!("CONFIG SET maxmemory-policy {policy}"));
        let first = client.acquire("k", "OWNER alice PX 600000").unwrap();
        let mut bob = Waiter::new(&server, "k", "OWNER bob PX 60000");
        client.ask::<()>("CONFIG SET maxmemory 1");
        // This is not `granted`, which sends commands: while memory is short, each command evicts the lock again.
        let second = grant(bob.client.finish().unwrap()).unwrap();
        client.ask::<()>("CONFIG SET maxmemory 0");
        assert!(second.owner == "bob" && second.fence > first.fence, "{policy}: {second:?}");
        assert_ne!(client.info("stats", "evicted_keys"), "0", "{policy}");
    }
}
