//! What other commands do to the key of a lock with several holders and a queue.

use redis::Value;

use super::{NOT_HELD, holds, readers, release, waits};
use crate::support::{Client, Server, blocked_clients, owners, transaction};

const WRONG_TYPE: &str = "WRONGTYPE Operation against a key holding the wrong kind of value";

/// Three read, two readers wait behind a writer; the lines are sent, and those who waited get the lock in their turn.
#[track_caller]
fn hands_over(lines: &[&str]) {
    let server = Server::start();
    let mut client = server.client();
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
        assert_eq!(client.refused(&format!("LOCK.RELEASE k {owner}")), NOT_HELD, "{lines:?}");
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
    hands_over(&["DEL k"]);
    hands_over(&["UNLINK k"]);
    hands_over(&["EXPIRE k 0"]);
    hands_over(&["LOCK.BREAK k"]);
    hands_over(&["FLUSHDB"]);
    hands_over(&["FLUSHALL ASYNC"]);
    hands_over(&["RENAME k other"]);
    hands_over(&["MOVE k 1"]);
    hands_over(&["SWAPDB 0 1"]);
    hands_over(&["MULTI", "SET k text", "DEL k", "EXEC"]);
    hands_over(&["LOCK.RELEASE k b", "LOCK.RELEASE k a", "LOCK.RELEASE k c"]);
}

#[test]
fn heads_that_fit_come_together_after_it() {
    let server = Server::start();
    let mut client = server.client();
    for line in ["DEL k", "FLUSHALL", "RENAME k other", "SWAPDB 0 1", "PEXPIRE k 5"] {
        holds(&mut client, "a", "LIMIT 2");
        holds(&mut client, "b", "LIMIT 2");
        let mut waiters = ["c", "d", "e"].map(|owner| waits(&server, owner, "SHARED"));
        client.ask::<Value>(line);
        for waiter in &mut waiters {
            waiter.granted();
        }
        assert_eq!(client.holding("k"), ["c", "d", "e"], "{line}");
        client.ask::<()>("FLUSHALL");
    }
}

/// The grants, without what goes by while one looks.
#[track_caller]
fn grants(client: &mut Client, key: &str) -> Vec<(String, i64, i64, i64)> {
    let lasting = |holder: crate::support::Holder| (holder.owner, holder.fence, holder.holds, holder.limit);
    client.holders(key).into_iter().map(lasting).collect()
}

#[test]
fn renamed_and_moved_they_go_along() {
    let server = Server::start();
    let mut client = server.client();
    readers(&mut client, ["a", "b", "a"]);
    holds(&mut client, "c", "LIMIT 3 PX 300000");
    let before = grants(&mut client, "k");
    let leases: Vec<_> = client.holders("k").iter().map(|holder| (holder.lease + 40_000) / 100_000).collect();
    assert_eq!(leases, [6, 6, 3]);
    for (line, key, db) in
        [("RENAME k other", "other", 0), ("MOVE other 1", "other", 1), ("SWAPDB 0 1", "other", 0)]
    {
        client.ask::<()>("SELECT 0");
        client.ask::<Value>(line);
        client.ask::<()>(&format!("SELECT {db}"));
        assert_eq!(grants(&mut client, key), before, "{line}");
        let now: Vec<_> =
            client.holders(key).iter().map(|holder| (holder.lease + 40_000) / 100_000).collect();
        assert_eq!(now, leases, "{line}");
    }
    assert_eq!(client.ask::<i64>("LOCK.RELEASE other a ALL"), 0);
    assert_eq!(client.acquire("other", "OWNER d"), None);
}

#[test]
fn one_that_comes_in_its_place_has_its_own_holders() {
    let server = Server::start();
    let mut client = server.client();
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

/// Readers who wait behind a writer, and the lock that comes has room for all of them but him.
#[test]
fn a_waiter_that_holds_the_lock_that_comes_has_it_at_once() {
    let server = Server::start();
    let mut client = server.client();
    for owner in ["x", "r"] {
        client.acquire("other", &format!("OWNER {owner} PX 600000 SHARED")).unwrap();
    }
    holds(&mut client, "a", "");
    let mut reader = waits(&server, "r", "SHARED");
    client.ask::<()>("RENAME other k");
    assert_eq!(reader.granted().holds, 2);
    assert_eq!(client.holding("k"), ["x", "r"]);
}

#[test]
fn another_type_sends_all_away() {
    for lines in [
        &["SET k text"][..],
        &["MULTI", "DEL k", "RPUSH k a", "EXEC"],
        &["SELECT 1", "SET k x", "SWAPDB 0 1", "SELECT 0"],
    ] {
        let server = Server::start();
        let mut client = server.client();
        readers(&mut client, ["a", "b"]);
        let upgrade = waits(&server, "a", "");
        let mut waiters = [upgrade, waits(&server, "w", ""), waits(&server, "r", "SHARED")];
        for line in lines {
            client.ask::<Value>(line);
        }
        for waiter in &mut waiters {
            assert_eq!(waiter.refused(), WRONG_TYPE, "{lines:?}");
        }
        assert_eq!(client.refused("LOCK.ACQUIRE k OWNER a SHARED"), WRONG_TYPE);
        client.ask::<()>("DEL k");
        readers(&mut client, ["a", "b"]);
    }
}

#[test]
fn a_copy_is_refused() {
    let server = Server::start();
    let mut client = server.client();
    readers(&mut client, ["a", "b"]);
    client.refused("COPY k other");
    assert_eq!(client.ask::<i64>("EXISTS other"), 0);
}

#[test]
fn what_is_gone_and_taken_again_in_one_step_is_the_waiters() {
    let server = Server::start();
    let mut client = server.client();
    readers(&mut client, ["a", "b"]);
    let mut writer = waits(&server, "w", "");
    let replies = transaction(&mut client, &["DEL k", "LOCK.ACQUIRE k OWNER a SHARED"]);
    assert_eq!(replies[1], Ok(Value::Nil));
    writer.granted();
}
