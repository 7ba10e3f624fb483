//! Locks as keys: what the server's own commands do with them.

use crate::support::{Payload, Server};

#[test]
fn a_scan_by_type_finds_the_held_locks_and_only_them() {
    let (_server, mut client) = Server::and_client();
    client.ask::<()>("MSET s1 x s2 x s3 x");
    for key in ["k1", "k2", "freed"] {
        client.acquire(key, "OWNER alice").unwrap();
    }
    client.ask::<()>("LOCK.RELEASE freed alice");
    let (_cursor, mut found): (i64, Vec<String>) = client.ask("SCAN 0 TYPE lockstate COUNT 1000");
    found.sort();
    assert_eq!(found, ["k1", "k2"]);
}

/// A copy would be a second holder of the same grant.
#[test]
fn a_copy_of_a_held_lock_is_refused() {
    let (_server, mut client) = Server::held();
    let before = client.snapshot();
    assert_eq!(client.refused("COPY k l"), "ERR not supported for this module key");
    client.refused("COPY k k DB 1");
    assert_eq!(client.snapshot(), before);
    assert_eq!(client.acquire("l", "OWNER bob").unwrap().holds, 1);
}

#[test]
fn rename_and_move_take_the_whole_lock_along() {
    let (_server, mut client) = Server::and_client();
    let fence = client.acquire("k", "OWNER alice PX 60000").unwrap().fence;
    client.acquire("k", "OWNER alice").unwrap();
    let ends: i64 = client.ask("PEXPIRETIME k");
    client.ask::<()>("RENAME k l");
    assert_eq!(client.holder("k"), None);
    assert_eq!(client.ask::<i64>("MOVE l 1"), 1);
    assert_eq!(client.holder("l"), None);
    client.ask::<()>("SELECT 1");
    let holder = client.holder("l").unwrap();
    assert_eq!((&holder.owner[..], holder.fence, holder.holds), ("alice", fence, 2));
    assert_eq!(client.ask::<i64>("PEXPIRETIME l"), ends);
    assert_eq!(client.ask::<i64>(&format!("LOCK.RELEASE l alice FENCE {fence} ALL")), 0);
}

/// A server that reuses its client object for the module's events may forget to restore the client's database.
#[test]
fn move_and_copy_to_another_database_leave_the_client_in_its_own() {
    let (_server, mut client) = Server::and_client();
    client.acquire("lock", "").unwrap();
    for line in ["SET string text", "MOVE lock 1", "COPY string string DB 2", "MOVE string 3"] {
        client.ask::<redis::Value>(line);
        let info: String = client.ask("CLIENT INFO");
        assert!(info.contains(" db=0 "), "after {line}: {info}");
    }
}

#[test]
fn the_digest_tells_owner_fence_and_holds_apart() {
    let (_server, mut client) = Server::and_client();
    let any = Payload::lock(&mut client, b"x", 1, 1);
    let mut digests = Vec::new();
    for (owner, fence, holds) in [
        (&b"alice"[..], 5, 1),
        (b"bob", 5, 1),
        (b"alice", 6, 1),
        (b"alice", 5, 2),
        (b"alice5", 5, 1),
        (b"alice", 1, 5),
    ] {
        let payload = any.with_lock(owner, fence, holds).encode();
        client.ask_words::<(), _>([b"RESTORE", &b"k"[..], b"60000", &payload, b"REPLACE"]);
        digests.push(client.ask::<String>("DEBUG DIGEST"));
    }
    let count = digests.len();
    digests.sort();
    digests.dedup();
    assert_eq!(digests.len(), count);
}
