//! The golden files and payloads, read: owner, fence, holds, greatest age and lease are what they were.

use std::collections::HashSet;
use std::fs;

use super::golden;
use super::table::{self, Line};
use crate::support::{Client, Server, Setup};

/// Where the files of encoding 1 are.
pub(super) const FOLDER: &str = "encoding-1";

/// The fence beside the keys, of the year 2200.
pub(super) const AHEAD: i64 = 7_258_118_400_000_000;

/// Two hundred and fifty years, in ms.
const LONGER: i64 = 8_000_000_000_000;

fn file(name: &str) -> Vec<u8> {
    fs::read(golden(FOLDER).join(name)).unwrap()
}

fn lines(kind: &str) -> Vec<Line> {
    let lines = table::read(&format!("{FOLDER}/{kind}.table"));
    assert!(lines.len() > 20);
    lines
}

/// A server that begins with an append-only file of two parts.
fn with_append_only(kind: &str, base: &str) -> Server {
    with_append_only_of(FOLDER, kind, base)
}

pub(super) fn with_append_only_of(folder: &str, kind: &str, base: &str) -> Server {
    let file = |name: String| fs::read(golden(folder).join(name)).unwrap();
    let manifest = format!(
        "file appendonly.aof.1.base.{base} seq 1 type b\nfile appendonly.aof.1.incr.aof seq 1 type i\n"
    );
    let place = |name: &str| format!("appendonlydir/appendonly.aof.{name}");
    Setup::new()
        .set("appendonly", "yes")
        .with_file(place("manifest"), manifest)
        .with_file(place(&format!("1.base.{base}")), file(format!("{kind}.base")))
        .with_file(place("1.incr.aof"), file(format!("{kind}.incr")))
        .start()
}

/// The server has these locks, and nothing else.
#[track_caller]
fn holds(server: &Server, lines: &[Line]) {
    let mut client = server.client();
    let dbs: HashSet<i64> = lines.iter().map(|line| line.db).collect();
    for db in dbs {
        client.ask::<()>(&format!("SELECT {db}"));
        let expected = lines.iter().filter(|line| line.db == db).count() as i64;
        assert_eq!(client.ask::<i64>("DBSIZE"), expected, "database {db}");
    }
    for line in lines {
        client.ask::<()>(&format!("SELECT {}", line.db));
        is(&mut client, line);
    }
    let last = lines.iter().map(|line| line.fence).max().unwrap();
    assert!(client.acquire("later", "").unwrap().fence > last);
}

/// The lock is what the line says, and works as one of its kind. It is released.
#[track_caller]
fn is(client: &mut Client, line: &Line) {
    let key = &line.key[..];
    let shown = table::shown(client, line.db, key, line.max_hold).expect("a held lock");
    // Another server, or a later version, may dump it in another way.
    assert_eq!(Line { dump: line.dump.clone(), ..shown }, *line);
    let longer = LONGER.to_string();
    let lease: i64 = client.ask_words([b"LOCK.EXTEND", key, &line.owner, b"PX", longer.as_bytes()]);
    if line.max_hold == 0 {
        assert_eq!(lease, LONGER, "{line:?}");
    } else {
        let ends: i64 = client.ask_words([b"PEXPIRETIME", key]);
        let beyond = ends - (line.fence / 1000 + line.max_hold);
        assert!((0..=client.ttl_beyond_lease()).contains(&beyond), "{line:?}: {beyond} ms beyond its age");
    }
    let left: i64 = client.ask_words([b"LOCK.RELEASE", key, &line.owner]);
    assert_eq!(left, line.holds - 1, "{line:?}");
    client.ask_words::<i64, _>([b"LOCK.BREAK", key]);
}

#[test]
fn an_rdb_file() {
    let server = Setup::new().with_file("dump.rdb", file("rdb.file")).start();
    holds(&server, &lines("rdb"));
}

#[test]
fn an_append_only_file_with_an_rdb_preamble() {
    holds(&with_append_only("aof-preamble", "rdb"), &lines("aof-preamble"));
}

#[test]
fn an_append_only_file_of_commands() {
    holds(&with_append_only("aof-commands", "aof"), &lines("aof-commands"));
}

/// What the append-only files hold is really in them: each form of the module's own command.
#[test]
fn the_append_only_files_have_each_form_of_an_effect() {
    for name in ["aof-preamble.incr", "aof-commands.incr"] {
        let text = file(name).escape_ascii().to_string();
        let states: HashSet<usize> = text
            .split("lock.apply")
            .skip(1)
            .map(|rest| {
                let words: Vec<&str> = rest.split("\\r\\n").take(5).collect();
                // The key, then the state, where another argument follows.
                words.get(3).filter(|next| next.starts_with('$')).map_or(0, |_| words[4].split(',').count())
            })
            .collect();
        assert_eq!(states, HashSet::from([0, 1, 5]), "{name}");
    }
}

#[test]
fn an_rdb_file_with_nothing_but_a_fence() {
    if Server::start().client().version() < (7, 2) {
        println!("skipped: an_rdb_file_with_nothing_but_a_fence: Redis 7.0 reads no files of later versions");
        return;
    }
    let (_server, mut client) = Setup::new().with_file("dump.rdb", file("fence.file")).start_and_client();
    assert_eq!(client.ask::<i64>("DBSIZE"), 0);
    assert_eq!(client.acquire("k", "").unwrap().fence, AHEAD + 1);
}

#[test]
fn payloads() {
    let (_server, mut client) = Server::and_client();
    for line in lines("rdb") {
        let ends = line.ends.max(0).to_string();
        client.ask::<()>(&format!("SELECT {}", line.db));
        client.ask_words::<(), _>([b"RESTORE", &line.key[..], ends.as_bytes(), &line.dump, b"ABSTTL"]);
        is(&mut client, &line);
    }
}
