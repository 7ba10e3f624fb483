//! Panics in callbacks for values: save, load, rewrite, measure, digest, defragment, free.

use redis::Value;

use super::{arm, goes_on, logged, server, struck};
use crate::support::{Client, Setup, wait_for};

fn dump(client: &mut Client) -> Vec<u8> {
    client.ask("DUMP k")
}

fn restore(client: &mut Client, payload: &[u8]) -> Result<Value, String> {
    client.send_words([b"RESTORE", &b"copy"[..], b"0", payload])
}

/// A module can't stop the server from writing a payload, so it writes one that no server accepts.
#[test]
fn a_dump_without_its_lock_is_refused_and_the_lock_stays() {
    let (server, mut client) = server();
    client.acquire("k", "OWNER alice PX 600000").unwrap();
    let before = client.snapshot();
    let whole = dump(&mut client);
    arm(&mut client, "rdb-save");
    let empty = dump(&mut client);
    struck(&server, &mut client, "rdb-save");
    assert!(empty.len() < whole.len());
    assert_eq!(restore(&mut client, &empty), Err("ERR Bad data format".into()));
    assert_eq!(client.snapshot(), before);
    assert_eq!(dump(&mut client), whole);
    goes_on(&server);
}

#[test]
fn a_payload_that_can_not_be_read_is_refused() {
    let (server, mut client) = server();
    client.acquire("k", "OWNER alice PX 600000").unwrap();
    let payload = dump(&mut client);
    let before = client.snapshot();
    arm(&mut client, "rdb-load");
    assert_eq!(restore(&mut client, &payload), Err("ERR Bad data format".into()));
    struck(&server, &mut client, "rdb-load");
    assert_eq!(client.snapshot(), before);
    restore(&mut client, &payload).unwrap();
    goes_on(&server);
}

/// If a replica can't read its primary's data, it asks for them again.
#[test]
fn a_replica_that_can_not_read_its_primary_s_data_syncs_anew() {
    let (primary, mut client) = server();
    client.acquire("k", "OWNER alice PX 600000").unwrap();
    if client.version() < (7, 2) {
        return;
    }
    // The replica loads from the socket, so the error belongs to the link, not to a file.
    let (replica, mut there) =
        Setup::new().with_faults().set("repl-diskless-load", "swapdb").start_and_client();
    arm(&mut there, "aux-load");
    there.ask::<()>(&format!("REPLICAOF 127.0.0.1 {}", primary.port()));
    struck(&replica, &mut there, "aux-load");
    wait_for("a replica with the lock", || {
        there.send("LOCK.INFO k").is_ok_and(|reply| matches!(reply, Value::Array(_)))
    });
    assert_eq!(there.holder("k").unwrap().owner, "alice");
    goes_on(&primary);
}

/// The child process that writes the file panics. The server's own copy of the fault stays armed.
#[test]
fn a_child_that_writes_a_file_says_so_and_the_server_goes_on() {
    let server =
        Setup::new().with_faults().set("appendonly", "yes").set("aof-use-rdb-preamble", "no").start();
    let mut client = server.client();
    let has_aux = client.version() >= (7, 2);
    client.acquire("k", "OWNER alice PX 600000").unwrap();
    let before = client.snapshot();
    let rewrites = ("BGREWRITEAOF", "aof_rewrite_in_progress");
    let saves = ("BGSAVE", "rdb_bgsave_in_progress");
    for (callback, (line, running)) in [("aof-rewrite", rewrites), ("rdb-save", saves), ("aux-save", saves)] {
        if callback == "aux-save" && !has_aux {
            continue;
        }
        arm(&mut client, callback);
        wait_for("another child to be done", || client.send(line).is_ok());
        logged(&server, callback);
        wait_for("the end of the child", || client.info("persistence", running) == "0");
        assert_eq!(client.ask::<String>("LOCK.FAULT none"), "none");
        assert_eq!(client.snapshot().digest, before.digest, "{callback}");
    }
    goes_on(&server);
}

#[test]
fn measuring_comparing_and_freeing_survive_a_panic() {
    let (server, mut client) = server();
    client.acquire("k", "OWNER alice PX 600000 MAXHOLD 900000").unwrap();
    let (bytes, digest): (i64, String) = (client.ask("MEMORY USAGE k"), client.ask("DEBUG DIGEST"));
    arm(&mut client, "mem-usage");
    assert!(client.ask::<i64>("MEMORY USAGE k") < bytes);
    struck(&server, &mut client, "mem-usage");
    arm(&mut client, "digest");
    assert_ne!(client.ask::<String>("DEBUG DIGEST"), digest);
    struck(&server, &mut client, "digest");
    assert_eq!(client.ask::<i64>("MEMORY USAGE k"), bytes);
    assert_eq!(client.ask::<String>("DEBUG DIGEST"), digest);
    for line in ["DEL k", "UNLINK k", "FLUSHALL ASYNC", "LOCK.BREAK k"] {
        client.acquire("k", "OWNER alice PX 600000 MAXHOLD 900000").unwrap();
        arm(&mut client, "free");
        client.ask::<Value>(line);
        struck(&server, &mut client, "free");
        assert_eq!(client.holder("k"), None, "{line}");
    }
    goes_on(&server);
}

#[test]
fn a_lock_that_was_to_be_moved_in_memory_stays_what_it_is() {
    let (server, mut client) = server();
    client.acquire("k", "OWNER alice PX 600000 MAXHOLD 900000").unwrap();
    if let Err(error) = client.send("CONFIG SET activedefrag yes") {
        println!("skipped: a_lock_that_was_to_be_moved_in_memory_stays_what_it_is: {error}");
        return;
    }
    client.ask::<()>("CONFIG SET activedefrag no");
    // Fragmentation gives the server something to move.
    let lines: Vec<String> =
        (0..20_000).map(|n| format!("LOCK.ACQUIRE k{n} OWNER name{n} EX 6000")).collect();
    client.ask_all::<Value, _>(&lines);
    let lines: Vec<String> = (0..20_000).filter(|n| n % 3 > 0).map(|n| format!("LOCK.BREAK k{n}")).collect();
    client.ask_all::<Value, _>(&lines);
    let digest: String = client.ask("DEBUG DIGEST");
    arm(&mut client, "defrag");
    for line in [
        "active-defrag-ignore-bytes 1 active-defrag-threshold-lower 0",
        "active-defrag-cycle-min 50 active-defrag-cycle-max 75",
        "activedefrag yes",
    ] {
        client.ask::<()>(&format!("CONFIG SET {line}"));
    }
    struck(&server, &mut client, "defrag");
    assert_eq!(client.ask::<String>("DEBUG DIGEST"), digest);
    goes_on(&server);
}
