//! The last fence, which a file stores beside the keys, and files of a later version of the module.

use std::fs;

use crate::support::{Client, Payload, Server, Setup, restore_from_primary, seal};

/// A fence from the year 2200, so that a new fence can exceed it only because of the stored one, not because of the clock.
const AHEAD: i64 = 7_258_118_400_000_000;
/// A fence from 1970.
const LONG_AGO: i64 = 5;

/// Shows the server a fence, and leaves no key.
fn pass_by(client: &mut Client, fence: i64) {
    let payload = Payload::lock(client, b"alice", fence as u64, 1).encode();
    restore_from_primary(client, "k", 60000, &payload);
    assert_eq!(client.ask::<i64>("LOCK.RELEASE k alice"), 0);
    assert_eq!(client.ask::<i64>("DBSIZE"), 0);
}

/// Whether files can store data beside the keys. On Redis 7.0, a server without the module could not skip such data.
fn has_room(client: &mut Client, test: &str) -> bool {
    let has = client.version() >= (7, 2);
    if !has {
        println!("skipped: {test}: Redis 7.0 keeps nothing beside the keys");
    }
    has
}

#[test]
fn an_rdb_file_without_a_lock_keeps_the_last_fence() {
    let mut server = Server::start();
    if !has_room(&mut server.client(), "an_rdb_file_without_a_lock_keeps_the_last_fence") {
        return;
    }
    pass_by(&mut server.client(), AHEAD);
    for round in 1..3 {
        server.client().ask::<()>("SAVE");
        server.kill_and_restart();
        let mut client = server.client();
        assert_eq!(client.acquire("next", "OWNER bob").unwrap().fence, AHEAD + round);
        client.ask::<()>("LOCK.RELEASE next bob");
    }
}

#[test]
fn a_rewritten_append_only_file_keeps_the_last_fence() {
    let mut server = Setup::new().set("appendonly", "yes").set("appendfsync", "always").start();
    let mut client = server.client();
    if !has_room(&mut client, "a_rewritten_append_only_file_keeps_the_last_fence") {
        return;
    }
    pass_by(&mut client, AHEAD);
    client.rewrite_aof();
    server.kill_and_restart();
    assert_eq!(server.client().acquire("next", "").unwrap().fence, AHEAD + 1);
}

#[test]
fn an_append_only_file_tells_of_fences_of_locks_that_are_free() {
    let mut server = Setup::new().set("appendonly", "yes").set("appendfsync", "always").start();
    pass_by(&mut server.client(), AHEAD);
    for round in 1..3 {
        server.kill_and_restart();
        let mut client = server.client();
        assert_eq!(client.acquire("next", "OWNER bob").unwrap().fence, AHEAD + round);
        client.ask::<()>("LOCK.RELEASE next bob");
    }
}

#[test]
fn a_replica_gets_the_last_fence_with_the_first_copy() {
    let primary = Server::start();
    if !has_room(&mut primary.client(), "a_replica_gets_the_last_fence_with_the_first_copy") {
        return;
    }
    pass_by(&mut primary.client(), AHEAD);
    for load in ["disabled", "swapdb"] {
        let replica = primary.replica_with(Setup::new().set("repl-diskless-load", load));
        let mut client = replica.client();
        client.ask::<()>("REPLICAOF NO ONE");
        assert_eq!(client.acquire("next", "").unwrap().fence, AHEAD + 1, "{load}");
    }
}

#[test]
fn a_file_keeps_no_fence_of_long_ago_and_loads_without_the_module() {
    let (server, mut client) = Server::and_client();
    // Another server makes the payload, because a sample lock acquired here would have a recent fence.
    let other = Server::start();
    let payload = Payload::lock(&mut other.client(), b"alice", LONG_AGO as u64, 1).encode();
    client.ask_words::<(), _>([b"RESTORE", &b"k"[..], b"60000", &payload]);
    assert_eq!(client.holder("k").unwrap().fence, LONG_AGO);
    client.ask::<()>("LOCK.BREAK k");
    client.ask::<()>("SET string text");
    client.ask::<()>("SAVE");
    let plain = Setup::new().without_module().with_rdb(&server.folder().join("dump.rdb")).start();
    assert_eq!(plain.client().ask::<String>("GET string"), "text");
}

/// Starts a server on this server's file, with another encoding version. Returns the log of the refusal.
#[track_caller]
fn refused_in_encoding(server: &Server, version: u16) -> String {
    let mut client = server.client();
    let sample = Payload::lock(&mut client, b"sample", 1, 1);
    client.ask::<()>("SAVE");
    let mut file = fs::read(server.folder().join("dump.rdb")).unwrap();
    // The type's id: 0x81 and eight bytes, whose last ten bits are the encoding version.
    let [here, there] =
        [sample.clone(), sample.with_encoding(version)].map(|sample| sample.body()[1..10].to_vec());
    let places: Vec<_> = (0..file.len() - 9).filter(|&place| file[place..][..9] == here[..]).collect();
    assert!(!places.is_empty());
    for place in places {
        file[place..][..9].copy_from_slice(&there);
    }
    seal(&mut file);
    Setup::new().with_file("dump.rdb", file).try_start().err().expect("a server that refuses the file")
}

#[track_caller]
fn names_both(log: &str, version: u16) {
    let line = format!("it is in encoding {version}; this version of the module reads encoding 2");
    assert!(log.contains(&line), "no \"{line}\" in:\n{log}");
    // The server ended, or the test killed it while it was still analyzing the file, on a busy machine.
    assert!(
        log.contains("ended: exit status") || log.contains("ended: killed, as it had given the file up"),
        "{log}"
    );
    assert!(!log.contains("BUG REPORT"), "{log}");
}

#[test]
fn a_file_with_a_lock_in_a_later_encoding_is_refused() {
    let server = Server::start();
    server.client().acquire("k", "OWNER alice").unwrap();
    for version in [3, 1023] {
        names_both(&refused_in_encoding(&server, version), version);
    }
}

#[test]
fn a_file_with_a_last_fence_in_a_later_encoding_is_refused() {
    let (server, mut client) = Server::and_client();
    if !has_room(&mut client, "a_file_with_a_last_fence_in_a_later_encoding_is_refused") {
        return;
    }
    client.acquire("k", "OWNER alice").unwrap();
    client.ask::<()>("LOCK.BREAK k");
    names_both(&refused_in_encoding(&server, 3), 3);
}
