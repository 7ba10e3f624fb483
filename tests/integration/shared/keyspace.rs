//! What other commands do to the key of a lock with several holders and a queue.

use redis::Value;

use super::{readers, release, waits};
use crate::support::{HELD_BY_ANOTHER, Server, blocked_clients, owners};

/// Three read, two readers wait behind a writer; the lines are sent, and those who waited get the lock in their turn.
#[track_caller]
fn hands_over(lines: &[&str]) {
    let (server, mut client) = Server::and_client();
    let grants = readers(&mut client, ["a", "b", "c"]);
    let mut writer = waits(&server, "w", "");
    let mut late = ["d", "e"].map(|owner| waits(&server, owner, "SHARED"));
    let mut actor = server.client();
    for line in lines {
        actor.ask::<Value>(line);
    }
    assert!(writer.granted().fence > grants[2].fence, "{lines:?}");
    assert_eq!(client.holding("k"), ["w"], "{lines:?}");
    assert_eq!(owners(&mut client, "k"), ["d", "e"]);
    for owner in ["a", "b", "c"] {
        assert_eq!(client.refused(&format!("LOCK.RELEASE k {owner}")), HELD_BY_ANOTHER, "{lines:?}");
    }
    release(&mut client, "w");
    for waiter in &mut late {
        waiter.granted();
    }
    assert_eq!(client.holding("k"), ["d", "e"]);
    assert_eq!(blocked_clients(&mut client), 0);
}

#[test]
fn what_ends_all_grants_hands_the_lock_over() {
    let ends: [&[&str]; 6] = [
        &["DEL k"],
        &["EXPIRE k 0"],
        &["FLUSHALL ASYNC"],
        &["SWAPDB 0 1"],
        &["MULTI", "SET k text", "DEL k", "EXEC"],
        &["LOCK.RELEASE k b", "LOCK.RELEASE k a", "LOCK.RELEASE k c"],
    ];
    ends.into_iter().for_each(hands_over);
}

#[test]
fn one_that_comes_in_its_place_has_its_own_holders() {
    let (server, mut client) = Server::and_client();
    for owner in ["x", "y"] {
        client.acquire("other", &format!("OWNER {owner} PX 600000 LIMIT 3")).unwrap();
    }
    let dump: Vec<u8> = client.ask("DUMP other");
    readers(&mut client, ["a", "b"]);
    let mut writer = waits(&server, "w", "");
    let mut reader = waits(&server, "r", "SHARED");
    client.ask::<()>("RENAME other k");
    assert_eq!(client.holding("k"), ["x", "y"]);
    assert_eq!(owners(&mut client, "k"), ["w", "r"]);
    client.ask_words::<(), _>([b"RESTORE", &b"k"[..], b"600000", &dump, b"REPLACE"]);
    assert_eq!(client.holding("k"), ["x", "y"]);
    release(&mut client, "y");
    assert!(writer.is_blocked(&mut client));
    release(&mut client, "x");
    writer.granted();
    release(&mut client, "w");
    reader.granted();
}
