//! What other commands do to one of the keys while somebody waits for several.

use redis::Value;

use super::{
    WRONG_TYPE, ask, count, free, granted, holders, holds, holds_one, release, waits, waits_for_one,
};
use crate::support::{Server, owners, soon, transaction};

/// Each way in which the last of them can become free.
#[test]
fn however_the_last_one_gets_free() {
    let server = Server::start();
    let mut client = server.client();
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

#[test]
fn a_flush_frees_all_of_them() {
    let server = Server::start();
    let mut client = server.client();
    for line in ["FLUSHALL", "FLUSHDB", "FLUSHALL ASYNC", "FLUSHDB SYNC"] {
        holds(&mut client, "a b c", "alice", "");
        let mut all = waits(&server, "c a b", "bob", "");
        let mut next = waits(&server, "d a", "carol", "");
        client.ask::<()>(line);
        granted(&mut all);
        assert!(next.is_blocked(&mut client));
        client.ask::<()>(line);
        granted(&mut next);
        client.ask::<()>(line);
    }
}

/// As single waiters are told; what was reserved goes to those behind.
#[test]
fn another_type_over_one_key_ends_the_wait() {
    let server = Server::start();
    let mut client = server.client();
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
    let server = Server::start();
    let mut client = server.client();
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
    let server = Server::start();
    let mut client = server.client();
    holds(&mut client, "a b", "alice", "");
    let mut all = waits(&server, "a b", "bob", "");
    transaction(&mut client, &["LOCK.RELEASE a alice", "SET b text"]);
    assert_eq!(all.refused(), WRONG_TYPE);
    assert_eq!(holders(&mut client, ["a"]), ["-"]);
    assert_eq!(count(&mut client, "lock_waiters"), 0);
}

/// It is text for a moment only: nobody need have seen it.
#[test]
fn overwritten_and_deleted_in_one_step() {
    let server = Server::start();
    let mut client = server.client();
    holds_one(&mut client, "a", "alice");
    holds_one(&mut client, "b", "alice");
    let mut all = waits(&server, "a b", "bob", "");
    transaction(&mut client, &["SET b text", "DEL b", "DEL a"]);
    granted(&mut all);
}

#[test]
fn rename_onto_one_makes_another_the_holder() {
    let server = Server::start();
    let mut client = server.client();
    holds(&mut client, "a b", "alice", "");
    let mut all = waits(&server, "a b", "bob", "");
    holds_one(&mut client, "other", "carol");
    release(&mut client, "a", "alice");
    client.ask::<()>("RENAME other b");
    assert!(all.is_blocked(&mut client));
    assert_eq!(holders(&mut client, ["a", "b"]), ["-", "carol"]);
    assert_eq!(owners(&mut client, "b"), ["bob"]);
    free(&mut client, "b", "carol");
    granted(&mut all);
}

/// One of them gets the name of the other.
#[test]
fn rename_of_one_onto_the_other() {
    let server = Server::start();
    let mut client = server.client();
    holds_one(&mut client, "a", "alice");
    holds_one(&mut client, "b", "carol");
    let mut all = waits(&server, "a b", "bob", "");
    client.ask::<()>("RENAME a b");
    assert!(all.is_blocked(&mut client));
    assert_eq!(holders(&mut client, ["a", "b"]), ["-", "alice"]);
    free(&mut client, "b", "alice");
    granted(&mut all);
}

/// What the holder makes of the name that it waits for.
#[test]
fn a_lock_that_is_renamed_onto_a_reserved_name_is_held_there() {
    let server = Server::start();
    let mut client = server.client();
    holds_one(&mut client, "a", "alice");
    let mut all = waits(&server, "free a", "bob", "");
    holds_one(&mut client, "other", "carol");
    client.ask::<()>("RENAME other free");
    free(&mut client, "a", "alice");
    soon("a is reserved", || client.acquire("a", "OWNER late").is_none());
    assert!(all.is_blocked(&mut client));
    free(&mut client, "free", "carol");
    granted(&mut all);
}

#[test]
fn each_database_has_its_own() {
    let server = Server::start();
    let (mut client, mut other) = (server.client(), server.client());
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

#[test]
fn a_swap_brings_other_holders() {
    let server = Server::start();
    let (mut client, mut other) = (server.client(), server.client());
    other.ask::<()>("SELECT 1");
    holds_one(&mut client, "a", "alice");
    holds_one(&mut other, "b", "carol");
    let mut all = waits(&server, "a b", "bob", "");
    client.ask::<()>("SWAPDB 0 1");
    assert!(all.is_blocked(&mut client));
    assert_eq!(holders(&mut client, ["a", "b"]), ["-", "carol"]);
    free(&mut client, "b", "carol");
    granted(&mut all);
    assert_eq!(holders(&mut other, ["a", "b"]), ["alice", "-"]);
}

#[test]
fn a_reload_keeps_those_who_wait() {
    let server = Server::start();
    let mut client = server.client();
    let fence = holds(&mut client, "a b", "alice", "").fences[0];
    let mut all = waits(&server, "b free a", "bob", "");
    client.ask::<()>("DEBUG RELOAD");
    assert_eq!(client.holder("a").unwrap().fence, fence);
    assert_eq!(client.acquire("free", "OWNER late"), None);
    free(&mut client, "b", "alice");
    assert!(all.is_blocked(&mut client));
    free(&mut client, "a", "alice");
    assert!(granted(&mut all).fences[0] > fence);
}

/// A server that is out of memory takes no new locks; what is held can be given back, extended and handed over.
#[test]
fn out_of_memory() {
    let server = Server::start();
    let mut client = server.client();
    holds(&mut client, "a b", "alice", "");
    let mut all = waits(&server, "a b", "bob", "");
    client.ask::<()>("CONFIG SET maxmemory 1");
    for options in ["", "BLOCK 0", "BLOCK 0 NOTIFY ch"] {
        assert!(client.refused(&ask("c d", "carol", options)).starts_with("OOM "));
    }
    assert_eq!(client.ask::<i64>("LOCK.MEXTEND 2 a b alice PX 700000"), 700_000);
    release(&mut client, "a b", "alice");
    granted(&mut all);
}
