//! `INFO lock`: its fields, and the number of locks, whatever happens to their keys.

use std::collections::BTreeSet;
use std::fs;

use crate::support::{Client, Server, Setup, root, wait_for, wait_until};

/// Returns the number of locks that the server shows.
#[track_caller]
fn locks(client: &mut Client) -> i64 {
    client.info("lock", "lock_keys").parse().unwrap()
}

/// Acquires this many locks, `k0` and so on.
#[track_caller]
fn take(client: &mut Client, count: usize) {
    // Half of the owners are UUIDs and half are names, which are stored differently.
    let lines: Vec<_> =
        (0..count)
            .map(|n| {
                if n % 2 == 0 {
                    format!("LOCK.ACQUIRE k{n}")
                } else {
                    format!("LOCK.ACQUIRE k{n} OWNER alice")
                }
            })
            .collect();
    client.ask_all::<(String, i64, i64, i64), _>(&lines);
}

fn fields(text: &str) -> Vec<&str> {
    let lines = text.lines().map(str::trim).filter(|line| line.starts_with("lock_"));
    lines.map(|line| line.split(':').next().unwrap()).collect()
}

#[test]
fn each_field_is_a_name_and_a_whole_number_and_documented() {
    let server = Server::start();
    let text: String = server.client().ask("INFO lock");
    let mut lines = text.lines().filter(|line| !line.is_empty());
    assert_eq!(lines.next(), Some("# lock_stats"));
    for line in lines {
        let (name, value) = line.split_once(':').unwrap();
        assert!(name.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_')), "{line}");
        value.parse::<u64>().unwrap_or_else(|error| panic!("{line}: {error}"));
    }
    let page = fs::read_to_string(root().join("docs/operations/watch.md")).unwrap();
    let section = page.split("\n## Counters\n").nth(1).unwrap().split("\n## ").next().unwrap();
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    let explained: BTreeSet<_> =
        rows.flat_map(|row| row.split('|').nth(1).unwrap().split('`').skip(1).step_by(2)).collect();
    // The page describes only the first and the last bucket.
    let known = fields(&text)
        .into_iter()
        .filter(|field| !field.starts_with("lock_waits_le_") || explained.contains(field));
    assert_eq!(known.collect::<BTreeSet<_>>(), explained, "the table");
}

#[test]
fn a_lapsed_lock_counts_until_it_is_deleted() {
    let (_server, mut client) = Server::and_client();
    client.ask::<()>("DEBUG SET-ACTIVE-EXPIRE 0");
    let grant = client.acquire("k", "PX 1").unwrap();
    let ends = grant.granted_at() + 1 + client.ttl_beyond_lease();
    wait_until(&mut client, ends);
    assert_eq!((locks(&mut client), client.ask::<i64>("DBSIZE")), (1, 1));
    // The expired key is deleted when a command looks at it.
    assert_eq!(client.lock_info("k"), None);
    assert_eq!((locks(&mut client), client.ask::<i64>("DBSIZE")), (0, 0));
    client.acquire("k", "PX 1").unwrap();
    client.ask::<()>("DEBUG SET-ACTIVE-EXPIRE 1");
    wait_for("the end of a lock", || locks(&mut client) == 0);
}

#[test]
fn what_the_server_does_with_keys_is_counted() {
    let (_server, mut client) = Server::and_client();
    take(&mut client, 8);
    for (line, left) in [
        ("DEL k0", 7),
        ("UNLINK k1", 6),
        ("RENAME k2 moved", 6),
        ("RENAME moved k3", 5),
        ("MOVE k3 1", 5),
        ("SET k4 x", 4),
        ("PEXPIRE k5 0", 3),
        ("SWAPDB 0 1", 3),
        ("FLUSHDB", 2),
        ("DEBUG RELOAD", 2),
    ] {
        client.send(line).unwrap();
        // The server may free the memory in the background.
        wait_for(line, || locks(&mut client) == left);
    }
    client.ask::<()>("SELECT 1");
    client.refused("COPY k6 copied DB 0");
    assert_eq!(locks(&mut client), 2);
}

#[test]
fn a_payload_counts_where_it_is_taken_only() {
    let (_server, mut client) = Server::held();
    let payload: Vec<u8> = client.ask("DUMP k");
    assert_eq!(locks(&mut client), 1);
    let mut restore = |key: &[u8], payload: &[u8], last: &[u8]| {
        client.send_words([b"RESTORE".as_slice(), key, b"60000", payload, last]).is_ok()
    };
    assert!(restore(b"l", &payload, b"REPLACE"));
    assert!(restore(b"l", &payload, b"REPLACE"));
    assert!(!restore(b"l", &payload, b"ABSTTL"));
    let mut damaged = payload.clone();
    damaged[8] ^= 1;
    assert!(!restore(b"l", &damaged, b"REPLACE"));
    wait_for("two locks", || locks(&mut client) == 2);
}

#[test]
fn a_restart_counts_what_the_file_has() {
    for setup in [Setup::new(), Setup::new().set("appendonly", "yes").set("appendfsync", "always")] {
        let mut server = setup.start();
        let mut client = server.client();
        take(&mut client, 10);
        client.ask::<()>("LOCK.RELEASE k1 alice");
        server.save_and_restart();
        let mut client = server.client();
        assert_eq!((locks(&mut client), client.ask::<i64>("DBSIZE")), (9, 9));
    }
}

#[test]
fn a_replica_counts_its_own() {
    let (primary, mut client) = Server::and_client();
    take(&mut client, 10);
    for load in ["disabled", "swapdb"] {
        let replica = primary.replica_with(Setup::new().set("repl-diskless-load", load));
        let mut there = replica.client();
        wait_for("the locks on a replica", || locks(&mut there) == 10);
        client.ask::<()>("LOCK.RELEASE k1 alice");
        wait_for("a release on a replica", || locks(&mut there) == 9);
        // A full resynchronization loads the new data set beside the old one.
        client.ask::<()>("DEBUG CHANGE-REPL-ID");
        client.ask::<()>("CLIENT KILL TYPE replica");
        client.acquire("k1", "OWNER alice").unwrap();
        wait_for("a full resynchronisation", || {
            client.info("stats", "sync_full").parse::<i64>().unwrap() > 1
        });
        replica.wait_for_sync_with(&primary);
        wait_for("the locks on a replica", || locks(&mut there) == 10);
    }
}
