//! Several holders and what is done in one step: `MULTI`, `WATCH`, scripts.

use redis::Value;

use super::{holds, readers, release};
use crate::support::{Client, Server, grant, transaction};

/// Whether a transaction that was begun by `WATCH k` before those lines is still carried out.
#[track_caller]
fn goes_on_after(client: &mut Client, other: &mut Client, lines: &[&str]) -> bool {
    client.ask::<()>("WATCH k");
    for line in lines {
        let _ = other.send(line);
    }
    client.ask::<()>("MULTI");
    client.ask::<()>("PING");
    client.ask::<Value>("EXEC") != Value::Nil
}

#[test]
fn a_watch_is_broken_by_what_changes_any_grant() {
    let server = Server::start();
    let (mut client, mut other) = (server.client(), server.client());
    for line in [
        "LOCK.ACQUIRE k OWNER c SHARED",
        "LOCK.ACQUIRE k OWNER a SHARED",
        "LOCK.ACQUIRE k OWNER a LIMIT 2 ONCE",
        "LOCK.EXTEND k b PX 700000",
        "LOCK.EXTEND k a PX 1000",
        "LOCK.RELEASE k b",
        "LOCK.BREAK k FENCE #",
        "LOCK.BREAK k",
    ] {
        let [a, _] = readers(&mut other, ["a", "b"]);
        assert!(
            !goes_on_after(&mut client, &mut other, &[&line.replace('#', &a.fence.to_string())]),
            "{line}"
        );
        other.ask::<()>("FLUSHALL");
    }
}

#[test]
fn a_watch_is_not_broken_by_what_changes_nothing() {
    let server = Server::start();
    let (mut client, mut other) = (server.client(), server.client());
    readers(&mut other, ["a", "b"]);
    for line in [
        "LOCK.ACQUIRE k OWNER c",
        "LOCK.ACQUIRE k OWNER a",
        "LOCK.ACQUIRE k OWNER a ONCE SHARED PX 1",
        "LOCK.RELEASE k c",
        "LOCK.RELEASE k a FENCE 5",
        "LOCK.EXTEND k c",
        "LOCK.BREAK k FENCE 5",
        "LOCK.INFO k FULL",
        "LOCK.LEAVE k a",
        "LOCK.ACQUIRE k SHARED LIMIT 3",
    ] {
        assert!(goes_on_after(&mut client, &mut other, &[line]), "{line}");
    }
}

#[test]
fn a_transaction_sees_its_own_steps() {
    let server = Server::start();
    let mut client = server.client();
    let replies = transaction(
        &mut client,
        &[
            "LOCK.ACQUIRE k OWNER a SHARED",
            "LOCK.ACQUIRE k OWNER b LIMIT 2",
            "LOCK.ACQUIRE k OWNER c SHARED",
            "LOCK.RELEASE k a",
            "LOCK.ACQUIRE k OWNER b ONCE",
            "LOCK.ACQUIRE k OWNER c SHARED BLOCK 0",
            "LOCK.RELEASE k b",
            "LOCK.ACQUIRE k OWNER c SHARED BLOCK 0",
        ],
    );
    let granted: Vec<_> = [0, 1, 2, 4, 5, 7]
        .map(|place: usize| grant(replies[place].clone().unwrap()).map(|grant| (grant.owner, grant.holds)))
        .into();
    let expected = [Some("a"), Some("b"), None, Some("b"), None, Some("c")];
    assert_eq!(granted, expected.map(|owner| owner.map(|owner| (owner.to_string(), 1))));
    assert_eq!(client.holding("k"), ["c"]);
}

#[test]
fn a_script_does_the_same() {
    let server = Server::start();
    for mut client in [server.client(), server.client_resp3()] {
        let script = "redis.call('LOCK.ACQUIRE', KEYS[1], 'OWNER', 'a', 'SHARED')
                      redis.call('LOCK.ACQUIRE', KEYS[1], 'OWNER', 'b', 'LIMIT', '2')
                      local none = redis.call('LOCK.ACQUIRE', KEYS[1], 'OWNER', 'c', 'SHARED', 'BLOCK', '0')
                      redis.call('LOCK.RELEASE', KEYS[1], 'a')
                      local some = redis.call('LOCK.ACQUIRE', KEYS[1], 'OWNER', 'c', 'SHARED')
                      return {tostring(none), some[1], redis.call('LOCK.BREAK', KEYS[1])}";
        let (none, some, broken): (String, String, i64) = client.ask_words(["EVAL", script, "1", "k"]);
        assert!(none == "false" || none == "nil", "{none}");
        assert_eq!((&some[..], broken), ("c", 2));
    }
}

#[test]
fn a_script_reads_who_holds_it() {
    let server = Server::start();
    let mut client = server.client();
    readers(&mut client, ["a", "b"]);
    let script = "return #redis.call('LOCK.INFO', KEYS[1], 'FULL')[28]";
    assert_eq!(client.ask_words::<i64, _>(["EVAL", script, "1", "k"]), 2, "two grants");
    holds(&mut client, "c", "SHARED");
    release(&mut client, "a");
    assert_eq!(client.holding("k"), ["b", "c"]);
}
