//! Files: a lock is unchanged after it was saved and loaded, in RDB and AOF.

use std::fs;

use redis::Value;

use crate::support::{Client, Grant, Server, Setup, wait_for};

/// Makes locks of every kind: with a UUID, a name or any bytes as owner, with several holds, and without an end.
fn fill(client: &mut Client) {
    client.acquire("uuid", "PX 600000").unwrap();
    client.acquire("name", "OWNER alice PX 500000").unwrap();
    client.acquire("name", "OWNER alice").unwrap();
    client.acquire("name", "OWNER alice PX 550000").unwrap();
    client.ask_words::<(), _>([
        b"LOCK.ACQUIRE",
        &b"by\0tes\r\n%s"[..],
        b"OWNER",
        b"\xff\0%n\r\n",
        b"EX",
        b"700",
    ]);
    client.acquire("endless", "OWNER bob").unwrap();
    client.ask::<()>("PERSIST endless");
    client.acquire("extended", "OWNER carol").unwrap();
    client.ask::<()>("LOCK.EXTEND extended carol EX 900");
    client.acquire("expire", "OWNER dave").unwrap();
    client.ask::<()>("PEXPIRE expire 800000");
    client.acquire("renamed", "OWNER erin EX 650").unwrap();
    client.ask::<()>("RENAME renamed other");
    client.acquire("released", "OWNER frank").unwrap();
    client.ask::<()>("LOCK.RELEASE released frank");
    client.ask::<Value>("LOCK.MACQUIRE 3 first name second OWNER alice PX 600000");
    client.ask::<Value>("LOCK.MRELEASE 1 name alice");
    client.acquire("broken", "OWNER grace").unwrap();
    client.ask::<()>("LOCK.BREAK broken");
    client.ask::<()>("SET string text");
}

type State = (Vec<(Vec<u8>, i64)>, String, Vec<Grant>);

fn state(client: &mut Client) -> State {
    let snapshot = client.snapshot();
    let holders = ["uuid", "name", "endless", "extended", "expire", "other", "first", "second"].map(|key| {
        let mut holder = client.holder(key).unwrap();
        // The snapshot has the exact end of the lease, so the remaining time need not be compared.
        holder.lease = holder.lease.min(0);
        holder
    });
    (snapshot.leases, snapshot.digest, holders.into())
}

/// Fills a server, restarts it in this way, and checks that everything is still there.
#[track_caller]
fn comes_back(setup: Setup, restart: impl FnOnce(&mut Server)) {
    let mut server = setup.start();
    fill(&mut server.client());
    let before = state(&mut server.client());
    restart(&mut server);
    let mut client = server.client();
    assert_eq!(state(&mut client), before);
    // The loaded locks also work.
    let holder = client.holder("name").unwrap();
    assert_eq!(holder.holds, 3);
    assert!(holder.lease > 500_000 && holder.lease <= 600_000, "{holder:?}");
    assert_eq!(client.acquire("name", "OWNER bob"), None);
    assert!(client.acquire("new", "").unwrap().fence > holder.fence);
    assert_eq!(client.ask::<i64>(&format!("LOCK.RELEASE name alice ALL FENCE {}", holder.fence)), 0);
    assert_eq!(client.acquire("released", "").unwrap().holds, 1);
}

fn with_aof() -> Setup {
    Setup::new().set("appendonly", "yes").set("appendfsync", "always")
}

#[test]
fn each_kind_of_file_has_all_of_it() {
    comes_back(Setup::new(), Server::save_and_restart);
    comes_back(Setup::new(), |server| server.client().ask::<()>("DEBUG RELOAD"));
    comes_back(with_aof(), Server::kill_and_restart);
    comes_back(with_aof(), |server| server.client().ask::<()>("DEBUG LOADAOF"));
}

#[test]
fn an_append_only_file_rewritten_as_commands() {
    comes_back(with_aof().set("aof-use-rdb-preamble", "no"), |server| {
        server.client().rewrite_aof();
        let folder = fs::read_dir(server.folder().join("appendonlydir")).unwrap();
        let base =
            folder.map(|entry| entry.unwrap().path()).find(|path| path.to_string_lossy().contains(".base."));
        let text = fs::read(base.expect("a base file")).unwrap();
        assert_eq!(text.escape_ascii().to_string().to_lowercase().matches("lock.apply").count(), 9);
        server.kill_and_restart();
    });
}

#[test]
fn a_lease_that_ended_while_the_server_was_down_has_lapsed() {
    for aof in ["no", "yes"] {
        let mut server = with_aof().set("appendonly", aof).start();
        let mut client = server.client();
        client.acquire("k", "OWNER alice PX 100").unwrap();
        client.acquire("long", "OWNER alice").unwrap();
        if aof == "no" {
            client.ask::<()>("SAVE");
        }
        let ends: i64 = client.ask("PEXPIRETIME k");
        server.kill_and_restart();
        let mut client = server.client();
        wait_for("the end of the lease", || {
            let (seconds, micros): (i64, i64) = client.ask("TIME");
            seconds * 1000 + micros / 1000 > ends
        });
        assert_eq!(client.holder("k"), None, "appendonly {aof}");
        assert_eq!(client.acquire("k", "OWNER bob").unwrap().holds, 1);
        assert_eq!(client.acquire("long", "OWNER bob"), None);
    }
}

#[test]
fn a_server_without_the_module_refuses_a_file_with_locks() {
    let mut server = Setup::new().start();
    server.client().acquire("k", "OWNER alice").unwrap();
    server.client().ask::<()>("SAVE");
    let file = server.folder().join("dump.rdb");
    let plain = Setup::new().without_module().with_rdb(&file);
    let log = plain.try_start().err().expect("a server that refuses the file");
    assert!(log.contains("lockstate"), "{log}");
    server.kill_and_restart();
    assert_eq!(server.client().holder("k").unwrap().owner, "alice");
}
