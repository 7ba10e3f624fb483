//! Writes the golden files anew, with the module and the server that the tests run with.
//!
//! Only for a change that is meant to leave old files behind. A new version of the encoding gets files of its own, in a
//! folder of its own, beside these:
//!
//!     cargo test --test integration golden::make::make -- --ignored
//!
//! The file with a fence beside the keys needs a server that keeps one, with an RDB version that all others of its like read:
//!
//!     REDISLOCK_SERVER=.../valkey-8.1/valkey-server cargo test --test integration golden::make::fence -- --ignored

use std::fs;
use std::path::Path;

use super::table::{self, Line};
use super::{golden, load};
use crate::support::{Client, Payload, Server, Setup, restore_from_primary, wall_clock};

/// The year 2100, in ms since 1970.
pub(super) const FAR: i64 = 4_102_444_800_000;

/// A hundred years, in ms: a greatest age that no test reaches.
const CENTURY: i64 = 3_155_760_000_000;

/// The databases in which there are locks.
const DBS: [i64; 3] = [0, 5, 15];

/// A lease in ms that ends about then.
pub(super) fn until(far: i64) -> i64 {
    far - wall_clock()
}

/// What is held when the file is written, but for `tail`.
fn fill(client: &mut Client) {
    for db in DBS {
        client.ask::<()>(&format!("SELECT {db}"));
        let far = until(FAR + db);
        client.acquire("uuid", &format!("PX {far}")).unwrap();
        client.acquire("name", &format!("OWNER alice PX {far}")).unwrap();
        client.acquire("max-hold", &format!("OWNER alice PX {far} MAXHOLD {CENTURY}")).unwrap();
    }
    client.ask::<()>("SELECT 0");
    let far = until(FAR).to_string();
    let capped = until(FAR).to_string();
    client.acquire("uuid:max-hold", &format!("PX {capped} MAXHOLD {CENTURY}")).unwrap();
    client.acquire("UUID", &format!("OWNER 0C1B6A0E-4F6B-4D0C-8F7E-3F8F1F0A9B11 PX {far}")).unwrap();
    let odd: [&[u8]; 3] = [b"\0\xff\r\n%s {}\"", &[b'x'; 128], b" "];
    for owner in odd {
        let key = [b"odd\0\r\n:", &owner[..1]].concat();
        client.ask_words::<(), _>([b"LOCK.ACQUIRE", &key[..], b"OWNER", owner, b"PX", far.as_bytes()]);
    }
    for (key, holds) in [("twice", 2), ("many", 2047), ("more", 2048), ("most", 3000)] {
        let line = format!("LOCK.ACQUIRE {key} OWNER alice PX {far}");
        client.ask_all::<redis::Value, _>(&vec![line; holds]);
    }
    client.acquire("endless", "OWNER bob").unwrap();
    client.ask::<()>("PERSIST endless");
    client.acquire("endless:max-hold", &format!("OWNER bob MAXHOLD {CENTURY}")).unwrap();
    client.ask::<()>("PERSIST endless:max-hold");
    for key in ["tail:again", "tail:extended", "tail:released", "tail:endless"] {
        client.acquire(key, &format!("OWNER tail PX {far}")).unwrap();
    }
}

/// What happens after an append-only file has been rewritten: each form of `LOCK.APPLY`.
fn tail(client: &mut Client) {
    client.ask::<()>("PERSIST tail:endless");
    client.acquire("tail:endless", "OWNER tail").unwrap();
    client.acquire("tail:again", "OWNER tail").unwrap();
    client.ask::<i64>(&format!("LOCK.EXTEND tail:extended tail PX {}", until(FAR + 1000)));
    client.ask::<i64>("LOCK.RELEASE tail:released tail");
    let far = until(FAR);
    client.acquire("tail:new", &format!("PX {far} MAXHOLD {CENTURY}")).unwrap();
    client.acquire("tail:gone", &format!("OWNER tail PX {far}")).unwrap();
    client.ask::<i64>("LOCK.BREAK tail:gone");
    client.ask::<()>("SELECT 5");
    client.acquire("name", "OWNER alice").unwrap();
    client.ask::<()>("SELECT 0");
}

/// All locks there are.
fn all(client: &mut Client) -> Vec<Line> {
    let mut lines = Vec::new();
    for db in DBS {
        client.ask::<()>(&format!("SELECT {db}"));
        let mut keys: Vec<Vec<u8>> = client.ask("KEYS *");
        keys.sort();
        for key in keys {
            let capped = String::from_utf8_lossy(&key).contains("max-hold") || key == b"tail:new";
            lines.extend(table::shown(client, db, &key, if capped { CENTURY } else { 0 }));
        }
    }
    lines
}

pub(super) fn copy(server: &Server, from: &str, to: &str) {
    let folder = server.folder().join("appendonlydir");
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let found: Vec<_> = entries.filter(|path| path.to_string_lossy().contains(from)).collect();
    assert_eq!(found.len(), 1, "{found:?}");
    fs::copy(&found[0], golden(to)).unwrap();
}

/// An append-only file in the folder, whose base is written as commands or not.
fn append_only(folder: &Path, kind: &str, preamble: &str) {
    let setup = Setup::new().set("appendonly", "yes").set("appendfsync", "always");
    let server = setup.set("aof-use-rdb-preamble", preamble).start();
    let mut client = server.client();
    fill(&mut client);
    client.rewrite_aof();
    tail(&mut client);
    let name = |suffix: &str| folder.join(format!("{kind}.{suffix}")).to_str().unwrap().to_owned();
    table::write(&name("table"), &all(&mut client));
    copy(&server, ".base.", &name("base"));
    copy(&server, ".incr.", &name("incr"));
}

#[test]
#[ignore = "writes the golden files anew"]
fn make() {
    let folder = Path::new(load::FOLDER);
    fs::create_dir_all(golden(load::FOLDER)).unwrap();
    append_only(folder, "aof-preamble", "yes");
    append_only(folder, "aof-commands", "no");
    let (server, mut client) = Server::and_client();
    fill(&mut client);
    tail(&mut client);
    table::write(&format!("{}/rdb.table", load::FOLDER), &all(&mut client));
    client.ask::<()>("SAVE");
    fs::copy(server.folder().join("dump.rdb"), golden(load::FOLDER).join("rdb.file")).unwrap();
}

#[test]
#[ignore = "writes the golden file with a fence anew"]
fn fence() {
    let (server, mut client) = Server::and_client();
    let payload = Payload::lock(&mut client, b"alice", load::AHEAD as u64, 1).encode();
    restore_from_primary(&mut client, "k", 0, &payload);
    client.ask::<()>("DEL k");
    client.ask::<()>("SAVE");
    fs::copy(server.folder().join("dump.rdb"), golden(load::FOLDER).join("fence.file")).unwrap();
}
