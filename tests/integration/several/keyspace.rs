//! What other commands do to one of the keys while somebody waits for several.

use redis::Value;

use super::{
    WRONG_TYPE, ask, count, free, granted, holders, holds, holds_one, release, waits, waits_for_one,
};
use crate::support::{Server, transaction};

/// Each way in which the last of them can become free.
#[test]
fn however_the_last_one_gets_free() {
    let (server, mut client) = Server::and_client();
    for line in [
        "DEL b",
        "UNLINK b",
        "LOCK.BREAK b",
        "RENAME b elsewhere",
        "MOVE b 1",
        "PEXPIRE b 0",
        "PEXPIRE b 1",
        "EXPIREAT b 1",
        "LOCK.EXTEND b alice PX 1",
        "LOCK.RELEASE b alice",
        "SWAPDB 0 1",
        "FLUSHALL ASYNC",
    ] {
        holds_one(&mut client, "a", "alice");
        holds_one(&mut client, "b", "alice");
        let mut all = waits(&server, "b a", "bob", "");
        free(&mut client, "a", "alice");
        client.ask::<Value>(line);
        assert_eq!(granted(&mut all).holds, [1, 1], "{line}");
        assert_eq!(holders(&mut client, ["a", "b"]), ["bob"; 2], "{line}");
        client.ask::<()>("FLUSHALL");
    }
}

/// As single waiters are told; what was reserved goes to those behind.
#[test]
fn another_type_over_one_key_ends_the_wait() {
    let (server, mut client) = Server::and_client();
    for line in ["SET b text", "RENAME other b", "COPY other b REPLACE", "RESTORE"] {
        client.ask::<()>("RPUSH other element");
        holds_one(&mut client, "a", "alice");
        holds_one(&mut client, "b", "alice");
        let mut all = waits(&server, "a free b y", "bob", "");
        let mut behind = waits_for_one(&server, "y", "carol");
        if line == "RESTORE" {
            let dump: Vec<u8> = client.ask("DUMP other");
            client.ask_words::<(), _>([b"RESTORE", &b"b"[..], b"0", &dump, b"REPLACE"]);
        } else {
            client.ask::<Value>(line);
        }
        assert_eq!(all.refused(), WRONG_TYPE, "{line}");
        behind.granted();
        assert_eq!(holders(&mut client, ["a", "y"]), ["alice", "carol"], "{line}");
        assert_eq!(count(&mut client, "lock_waiters"), 0, "{line}");
        client.ask::<()>("FLUSHALL");
    }
}

/// As with a lock that is free in a grace, nobody is told when a free name is given to something else: it is found when the
/// others get free.
#[test]
fn another_type_under_a_reserved_name_is_found_in_the_end() {
    let (server, mut client) = Server::and_client();
    holds(&mut client, "a b", "alice", "");
    let mut all = waits(&server, "a free b", "bob", "");
    let mut behind = waits_for_one(&server, "a", "carol");
    client.ask::<()>("SET free text");
    assert_eq!(client.refused("LOCK.ACQUIRE free"), WRONG_TYPE);
    release(&mut client, "b a", "alice");
    assert_eq!(all.refused(), WRONG_TYPE);
    behind.granted();
    assert_eq!(holders(&mut client, ["a", "b"]), ["carol", "-"]);
}

/// The last one to get free, and another overwritten in the same step.
#[test]
fn overwritten_in_the_step_in_which_the_others_get_free() {
    let (server, mut client) = Server::and_client();
    holds(&mut client, "a b", "alice", "");
    let mut all = waits(&server, "a b", "bob", "");
    transaction(&mut client, &["LOCK.RELEASE a alice", "SET b text"]);
    assert_eq!(all.refused(), WRONG_TYPE);
    assert_eq!(holders(&mut client, ["a"]), ["-"]);
    assert_eq!(count(&mut client, "lock_waiters"), 0);
}

#[test]
fn each_database_has_its_own() {
    let (server, [mut client, mut other]) = Server::and_clients();
    other.ask::<()>("SELECT 1");
    holds(&mut client, "a b", "alice", "");
    let mut all = waits(&server, "a b", "bob", "");
    assert_eq!(holds(&mut other, "a b", "carol", "").holds, [1, 1]);
    let mut there = server.client();
    there.ask::<()>("SELECT 1");
    let mut there = super::waits_on(&server, there, "b a", "dave", "");
    release(&mut other, "a b", "carol");
    granted(&mut there);
    assert!(all.is_blocked(&mut client));
    release(&mut client, "a b", "alice");
    granted(&mut all);
    let line = ask("a b", "bob", "ONCE");
    assert_eq!(super::grants(client.ask(&line)).unwrap().holds, [1, 1]);
}
