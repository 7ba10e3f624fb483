//! Files and payloads of each encoding, in `tests/golden`, whose README names the builds that made them. Every later version must read
//! them. Make the folder of a new encoding with:
//!
//!     cargo test --test integration golden::make -- --ignored
//!
//! The file with only a fence needs a server that saves one:
//!
//!     REDISLOCK_SERVER=.../valkey-8.1/valkey-server cargo test --test integration golden::fence -- --ignored

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use crate::support::{Client, Payload, Server, Setup, restore_from_primary, root, wall_clock};

const FOLDER: &str = "encoding-2";
/// The year 2100, in ms since 1970.
const FAR: i64 = 4_102_444_800_000;
/// The last fence in the file, from the year 2200.
const AHEAD: i64 = 7_258_118_400_000_000;
const KEYS: [&str; 8] = ["alone", "label", "mixed", "many", "permits", "plain", "upgraded", "uuid"];

/// Makes the grants of all kinds that are written to the files.
fn fill(client: &mut Client) {
    let far = FAR - wall_clock();
    for line in [
        "permits OWNER a LIMIT 4",
        "permits OWNER b LIMIT 4",
        "permits OWNER c LIMIT 4 LABEL carol",
        "mixed OWNER r SHARED LABEL reader",
        "mixed OWNER p LIMIT 9 SLOT 7",
        "mixed OWNER q SHARED",
        "label OWNER a LABEL 10.0.0.7:8080",
        "alone OWNER a LIMIT 5 SLOT 3 MAXHOLD 3155760000000 LABEL x",
        "upgraded OWNER a LIMIT 7 SLOT 6",
        "upgraded OWNER a",
        "plain OWNER host:4711",
        "uuid OWNER 0c1b6a0e-4f6b-4d0c-8f7e-3f8f1f0a9b11 MAXHOLD 3155760000000",
    ] {
        let (key, options) = line.split_once(' ').unwrap();
        client.acquire(key, &format!("{options} PX {far}")).unwrap();
    }
    client.ask::<i64>("LOCK.RELEASE permits b");
    for _ in 0..200 {
        client.acquire("many", &format!("OWNER a PX {far}")).unwrap();
    }
}

/// Makes changes after the AOF has been rewritten, which are appended to it.
fn tail(client: &mut Client) {
    let far = FAR - wall_clock();
    client.acquire("permits", &format!("OWNER d LIMIT 4 SLOT 4 PX {far} LABEL any,bytes/7")).unwrap();
    client.acquire("label", &format!("OWNER a ONCE PX {far} LABEL 10.0.0.8:8080")).unwrap();
}

/// Returns a line for each grant.
fn shown(client: &mut Client) -> String {
    let mut text = String::new();
    for key in KEYS {
        for one in client.holders(key) {
            let (owner, fence, holds, limit) = one.lasting();
            writeln!(text, "{key} {owner} {fence} {holds} {limit} {} {}", one.slot, one.label).unwrap();
        }
    }
    text
}

fn golden(name: &str) -> PathBuf {
    root().join("tests/golden").join(FOLDER).join(name)
}

fn file(name: &str) -> Vec<u8> {
    fs::read(golden(name)).unwrap()
}

#[track_caller]
fn is(client: &mut Client) {
    assert_eq!(shown(client).into_bytes(), file("shown"));
    // The slots in the file are in use, so others are given.
    assert_eq!(client.acquire("permits", "OWNER e LIMIT 4").unwrap().slot, Some(2));
    assert_eq!(client.acquire("upgraded", "OWNER a ONCE LIMIT 7").unwrap().slot, Some(6));
}

#[test]
#[ignore = "writes the golden files anew"]
fn make() {
    fs::create_dir_all(golden("")).unwrap();
    let setup = Setup::new().set("appendonly", "yes").set("appendfsync", "always");
    let server = setup.set("aof-use-rdb-preamble", "no").start();
    let mut client = server.client();
    fill(&mut client);
    client.rewrite_aof();
    tail(&mut client);
    fs::write(golden("shown"), shown(&mut client)).unwrap();
    for kind in ["base", "incr"] {
        let folder = fs::read_dir(server.folder().join("appendonlydir")).unwrap();
        let mut files = folder.map(|entry| entry.unwrap().path());
        let part = files.find(|path| path.to_string_lossy().contains(&format!(".{kind}."))).unwrap();
        fs::copy(part, golden(&format!("aof-commands.{kind}"))).unwrap();
    }
    client.ask::<()>("SAVE");
    fs::copy(server.folder().join("dump.rdb"), golden("rdb.file")).unwrap();
    let dump = |key: &&str| {
        let dump: Vec<u8> = client.ask(&format!("DUMP {key}"));
        let hex: String = dump.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{key} {hex}\n")
    };
    fs::write(golden("payloads"), KEYS.iter().map(dump).collect::<String>()).unwrap();
}

#[test]
#[ignore = "writes the golden file with a fence anew"]
fn a_golden_file_keeps_the_last_fence() {
    let (server, mut client) = Server::and_client();
    let payload = Payload::lock(&mut client, b"alice", AHEAD as u64, 1).encode();
    restore_from_primary(&mut client, "k", 0, &payload);
    client.ask::<()>("DEL k");
    client.ask::<()>("SAVE");
    fs::copy(server.folder().join("dump.rdb"), golden("fence.file")).unwrap();
}

#[test]
fn a_golden_rdb_file_is_loaded() {
    let server = Setup::new().with_file("dump.rdb", file("rdb.file")).start();
    is(&mut server.client());
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
fn a_golden_append_only_file_is_loaded() {
    let manifest =
        "file appendonly.aof.1.base.aof seq 1 type b\nfile appendonly.aof.1.incr.aof seq 1 type i\n";
    let place = |name: &str| format!("appendonlydir/appendonly.aof.{name}");
    let server = Setup::new()
        .set("appendonly", "yes")
        .with_file(place("manifest"), manifest)
        .with_file(place("1.base.aof"), file("aof-commands.base"))
        .with_file(place("1.incr.aof"), file("aof-commands.incr"))
        .start();
    is(&mut server.client());
}

#[test]
fn golden_payloads_are_restored() {
    let (_server, mut client) = Server::and_client();
    for line in String::from_utf8(file("payloads")).unwrap().lines() {
        let (key, dump) = line.split_once(' ').unwrap();
        let pairs = dump.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
        let dump: Vec<u8> = pairs.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect();
        let ends = FAR.to_string();
        client.ask_words::<(), _>([b"RESTORE", key.as_bytes(), ends.as_bytes(), &dump, b"ABSTTL"]);
    }
    is(&mut client);
}
