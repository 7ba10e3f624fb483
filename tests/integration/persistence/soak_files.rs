//! Many locks of every kind come back from a file as they were, and the next fence is above all of them.

use std::fs;
use std::path::Path;
use std::time::Instant;

use crate::support::{Client, Server, Setup, figure, size, wait_for};

/// A lock as it must come back.
#[derive(Debug, PartialEq, Eq)]
struct Lock {
    owner: Vec<u8>,
    fence: u64,
    holds: u64,
    ends: i64,
}

fn key(number: usize) -> String {
    format!("lock:{number}")
}

/// Takes that many locks; their sessions are of `client`. Short, named, long and made-up owners, re-entered ones, greatest
/// ages, sessions, some without an end, each with a lease of its own.
fn fill(client: &mut Client, count: usize) {
    let mut lines = Vec::new();
    for number in 0..count {
        let (key, lease) = (key(number), 600_000 + number * 7);
        match number % 6 {
            0 => lines.push(format!("LOCK.ACQUIRE {key} PX {lease}")),
            1 => {
                for _ in 0..1 + number % 4 {
                    lines.push(format!("LOCK.ACQUIRE {key} OWNER name{number} PX {lease}"));
                }
            }
            2 => lines.push(format!("LOCK.ACQUIRE {key} PX {lease} SESSION")),
            3 => lines.push(format!("LOCK.ACQUIRE {key} MAXHOLD {} PX {lease}", lease + 1 + number)),
            4 => {
                let owner = "x".repeat(1 + number % 128);
                lines.push(format!("LOCK.ACQUIRE {key} OWNER {owner} MAXHOLD {lease} EX 60"));
                lines.push(format!("LOCK.ACQUIRE {key} OWNER {owner} PX 500000"));
                lines.push(format!("LOCK.EXTEND {key} {owner} PX {}", 400_000 + number));
            }
            _ => {
                lines.push(format!("LOCK.ACQUIRE {key} OWNER endless{number}"));
                lines.push(format!("PERSIST {key}"));
            }
        }
    }
    client.ask_all::<redis::Value, _>(&lines);
}

/// Each lock, and a digest of all that there is.
fn state(client: &mut Client, count: usize) -> (Vec<Lock>, String) {
    let infos: Vec<String> = (0..count).map(|number| format!("LOCK.INFO {}", key(number))).collect();
    let ends: Vec<String> = (0..count).map(|number| format!("PEXPIRETIME {}", key(number))).collect();
    let infos = client.ask_all::<Vec<redis::Value>, _>(&infos);
    let ends = client.ask_all::<i64, _>(&ends);
    let locks = infos.into_iter().zip(ends).map(|(info, ends)| {
        let number = |place: usize| redis::from_redis_value(info[place].clone()).unwrap();
        let owner = redis::from_redis_value(info[1].clone()).unwrap();
        Lock { owner, fence: number(3), holds: number(5), ends }
    });
    (locks.collect(), client.ask("DEBUG DIGEST"))
}

fn folder_size(folder: &Path) -> u64 {
    let sizes = fs::read_dir(folder).unwrap().map(|entry| {
        let path = entry.unwrap().path();
        if path.is_dir() { folder_size(&path) } else { path.metadata().unwrap().len() }
    });
    sizes.sum()
}

/// Fills a server, restarts it as said, and expects all that was there; then the same with all locks free.
#[track_caller]
fn comes_back(name: &str, setup: Setup, restart: impl Fn(&mut Server)) {
    let count = size(5_000, 100_000);
    let mut server = setup.start();
    let mut client = server.client();
    fill(&mut client, count);
    let (before, digest) = state(&mut client, count);
    let last = before.iter().map(|lock| lock.fence).max().unwrap();
    let began = Instant::now();
    restart(&mut server);
    let took = began.elapsed();
    let bytes = folder_size(server.folder());
    let mut client = server.client();
    let (after, digest_after) = state(&mut client, count);
    for (number, (after, before)) in after.iter().zip(&before).enumerate() {
        assert_eq!(after, before, "{name}: {}", key(number));
    }
    assert_eq!(digest_after, digest, "{name}");
    assert_eq!(client.ask::<usize>("DBSIZE"), count, "{name}");
    let next = client.acquire("next", "").unwrap().fence as u64;
    assert!(next > last, "{name}: {next} after {last}");

    let lines: Vec<String> = (0..count).map(|number| format!("LOCK.BREAK {}", key(number))).collect();
    assert!(client.ask_all::<i64, _>(&lines).into_iter().all(|broken| broken == 1), "{name}");
    client.ask::<()>("LOCK.BREAK next");
    restart(&mut server);
    let mut client = server.client();
    assert_eq!(client.ask::<usize>("DBSIZE"), 0, "{name}");
    let last = next;
    let next = client.acquire("next", "").unwrap().fence as u64;
    assert!(next > last, "{name}: {next} after {last}, with all locks free");
    figure(
        &format!("saved and loaded, {name}"),
        format_args!("{count} locks, {bytes} bytes, {} ms", took.as_millis()),
    );
}

fn with_aof(sync: &str, preamble: &str) -> Setup {
    Setup::new()
        .set("appendonly", "yes")
        .set("appendfsync", sync)
        .set("aof-use-rdb-preamble", preamble)
        .set("auto-aof-rewrite-percentage", "0")
}

#[track_caller]
fn rewrite(server: &mut Server) {
    server.client().rewrite_aof();
    server.kill_and_restart();
}

#[test]
fn an_rdb_file_saved_before_a_kill() {
    comes_back("RDB", Setup::new(), |server| {
        server.client().ask::<()>("SAVE");
        server.kill_and_restart();
    });
}

#[test]
fn an_append_only_file_synced_every_second() {
    comes_back("AOF everysec", with_aof("everysec", "yes"), |server| {
        let mut client = server.client();
        wait_for("the buffer to be written", || {
            client.info("persistence", "aof_buffer_length") == "0"
                && client.info("persistence", "aof_pending_bio_fsync") == "0"
        });
        server.kill_and_restart();
    });
}

#[test]
fn an_append_only_file_rewritten_with_an_rdb_preamble() {
    comes_back("AOF rewritten, RDB preamble", with_aof("always", "yes"), rewrite);
}

#[test]
fn an_append_only_file_rewritten_as_commands() {
    comes_back("AOF rewritten, commands", with_aof("always", "no"), rewrite);
}
