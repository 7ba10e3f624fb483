//! Short memory: nothing new is granted, or locks are evicted; held locks can be released.

use redis::Value;

use crate::support::{Server, Setup};

/// The server's eviction policies; the first one evicts nothing.
pub(crate) const POLICIES: [&str; 8] = [
    "noeviction",
    "allkeys-lru",
    "allkeys-lfu",
    "allkeys-random",
    "volatile-lru",
    "volatile-lfu",
    "volatile-random",
    "volatile-ttl",
];

/// A client of a server without memory must still be able to release its locks.
#[test]
fn a_server_out_of_memory_grants_nothing_and_releases() {
    let (_server, mut client) = Server::and_client();
    for key in ["a", "b", "c"] {
        client.acquire(key, "OWNER alice").unwrap();
    }
    client.ask::<()>("CONFIG SET maxmemory 1");
    let before = client.snapshot();
    for line in ["LOCK.ACQUIRE free", "LOCK.ACQUIRE a OWNER alice", "LOCK.ACQUIRE a OWNER bob"] {
        assert_eq!(client.refused(line), "OOM command not allowed when used memory > 'maxmemory'.", "{line}");
    }
    assert_eq!(client.snapshot(), before);
    assert_eq!(client.holder("a").unwrap().owner, "alice");
    assert_eq!(client.ask::<i64>("LOCK.EXTEND a alice PX 5000"), 5000);
    assert_eq!(client.ask::<i64>("LOCK.RELEASE b alice"), 0);
    assert_eq!(client.ask::<i64>("LOCK.BREAK c"), 1);
    client.ask::<()>("CONFIG SET maxmemory 0");
    assert_eq!(client.acquire("free", "").unwrap().holds, 1);
}

/// The server warns at its start and when the setting changes, once for all policies that evict.
#[test]
fn a_policy_that_may_evict_is_warned_of() {
    let warnings = |server: &Server| {
        let log = server.log();
        log.lines().filter(|line| line.contains("the server may evict them")).count()
    };
    let server = Setup::new().set("maxmemory-policy", "volatile-ttl").start();
    assert!(
        server
            .log()
            .contains("locks need maxmemory-policy noeviction: with volatile-ttl the server may evict them")
    );
    let mut client = server.client();
    client.ask::<()>("CONFIG SET maxmemory-policy allkeys-lru");
    assert_eq!(warnings(&server), 1);
    client.ask::<()>("CONFIG SET maxmemory-policy noeviction");
    assert_eq!(warnings(&server), 1);
    client.ask::<()>("CONFIG SET maxmemory-policy allkeys-lru");
    assert_eq!(warnings(&server), 2);
    assert_eq!(warnings(&Server::start()), 0);
}

/// With `noeviction`, a full server refuses new locks and keeps the others. With other policies it evicts locks without telling their
/// owners: the log warns of this, and `INFO` counts it.
#[test]
fn memory_that_runs_short() {
    for policy in POLICIES {
        let (server, mut client) = Setup::new().set("maxmemory-policy", policy).start_and_client();
        client.acquire("first", "OWNER alice PX 600000").unwrap();
        let used: u64 = client.info("memory", "used_memory").parse().unwrap();
        client.ask::<()>(&format!("CONFIG SET maxmemory {}", used + 1_000_000));
        let lines: Vec<String> =
            (0..8_000).map(|n| format!("LOCK.ACQUIRE k{n} OWNER {} EX 600", "x".repeat(60))).collect();
        let replies = client.send_all(&lines);
        let refused = replies.iter().filter(|reply| reply.is_err()).count();
        let evicted: u64 = client.info("stats", "evicted_keys").parse().unwrap();
        let told = server.log().lines().filter(|line| line.contains("lock evicted: owner")).count();
        if policy == "noeviction" {
            assert!(refused > 0, "{policy}");
            assert!(replies.iter().flatten().all(|reply| matches!(reply, Value::Array(_))));
            assert!(
                replies.iter().filter_map(|reply| reply.as_ref().err()).all(|error| error.starts_with("OOM"))
            );
            assert_eq!((evicted, told), (0, 0));
            assert_eq!(client.ask::<i64>("LOCK.EXTEND first alice PX 600000"), 600_000);
            assert_eq!(client.ask::<i64>("LOCK.RELEASE first alice"), 0);
        } else {
            assert!(evicted > 0, "{policy}");
            // An eviction is not counted if the process had to wait for a processor in the middle of it.
            let counted: u64 = client.info("lock", "lock_evictions").parse().unwrap();
            assert!((evicted * 9 / 10..=evicted).contains(&counted), "{policy}: {counted} of {evicted}");
            assert!(told >= 1, "{policy}: no warning in the log");
            assert!(told < 100, "{policy}: {told} lines in the log");
        }
    }
}

/// Some servers call modules for evictions with the client whose command caused them, so its database must be restored.
#[test]
fn a_client_stays_in_its_database_when_its_command_evicts_from_another() {
    let (_server, mut client) = Setup::new().set("maxmemory-policy", "allkeys-random").start_and_client();
    client.ask::<()>("SELECT 1");
    let lines: Vec<String> = (0..1_000).map(|n| format!("LOCK.ACQUIRE k{n} EX 600")).collect();
    client.ask_all::<Value, _>(&lines);
    client.ask::<()>("SELECT 0");
    client.ask::<()>("CONFIG SET maxmemory 1");
    let _ = client.send("LOCK.ACQUIRE here EX 600");
    client.ask::<()>("CONFIG SET maxmemory 0");
    assert_ne!(client.info("lock", "lock_evictions"), "0");
    client.ask::<()>("SET here any");
    assert!(client.info("keyspace", "db0").starts_with("keys=1,"), "the client is in another database");
}
