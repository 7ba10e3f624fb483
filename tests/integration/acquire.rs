//! Acquiring a lock: who gets it, with which reply, and who is refused.

use crate::support::{Payload, Server};

#[test]
fn an_options_word_can_be_an_owner_or_a_key() {
    let (_server, mut client) = Server::and_client();
    assert_eq!(client.acquire("OWNER", "OWNER OWNER PX 60000").unwrap().owner, "OWNER");
    assert_eq!(client.ask::<i64>("LOCK.EXTEND OWNER OWNER PX 60000"), 60_000);
    assert_eq!(client.acquire("ALL", "OWNER ALL").unwrap().owner, "ALL");
    assert_eq!(client.acquire("ALL", "OWNER ALL").unwrap().holds, 2);
    assert_eq!(client.ask::<i64>("LOCK.RELEASE ALL ALL"), 1);
    assert_eq!(client.ask::<i64>("LOCK.RELEASE ALL ALL ALL"), 0);
}

/// From 2,048 holds on, a grant with a UUID is stored in a larger allocation.
#[test]
fn many_holds_come_and_go_and_are_kept() {
    const MANY: usize = 5000;
    const OWNER: &str = "0c1b6a0e-4f6b-4d0c-8f7e-3f8f1f0a9b11";
    let (_server, mut client) = Server::and_client();
    let acquires = vec![format!("LOCK.ACQUIRE k OWNER {OWNER} EX 600"); MANY];
    let grants: Vec<(String, i64, i64, i64)> = client.ask_all(&acquires);
    let fence = grants[0].1;
    for (grant, holds) in grants.iter().zip(1..) {
        assert_eq!((grant.1, grant.2), (fence, holds));
    }
    let at_most = client.ask::<i64>("MEMORY USAGE k");
    let digest: String = client.ask("DEBUG DIGEST");
    client.ask::<()>("DEBUG RELOAD");
    assert_eq!(client.ask::<String>("DEBUG DIGEST"), digest);
    let releases = vec![format!("LOCK.RELEASE k {OWNER}"); MANY - 1];
    let left: Vec<usize> = client.ask_all(&releases);
    assert_eq!(left, (1..MANY).rev().collect::<Vec<_>>());
    let holder = client.holder("k").unwrap();
    assert_eq!((holder.owner.as_str(), holder.fence, holder.holds), (OWNER, fence, 1));
    assert!(client.ask::<i64>("MEMORY USAGE k") < at_most);
}

#[test]
fn holds_at_their_limit_refuse_a_reentry_and_change_nothing() {
    const LIMIT: u64 = (1 << 32) - 1;
    let (_server, mut client) = Server::and_client();
    for owner in ["alice", "0c1b6a0e-4f6b-4d0c-8f7e-3f8f1f0a9b11"] {
        let payload = Payload::lock(&mut client, owner.as_bytes(), 7, LIMIT).encode();
        client.ask_words::<(), _>([b"RESTORE", &b"k"[..], b"60000", &payload, b"REPLACE"]);
        let before = client.snapshot();
        assert_eq!(
            client.refused(&format!("LOCK.ACQUIRE k OWNER {owner} PX 90000")),
            "ERR the lock is held too often: holds would overflow"
        );
        assert_eq!(client.snapshot(), before);
        let once = client.acquire("k", &format!("OWNER {owner} ONCE PX 1")).unwrap();
        assert_eq!((once.fence, once.holds as u64), (7, LIMIT));
        assert_eq!(client.ask::<u64>(&format!("LOCK.RELEASE k {owner}")), LIMIT - 1);
        assert_eq!(client.acquire("k", &format!("OWNER {owner}")).unwrap().holds as u64, LIMIT);
    }
}
