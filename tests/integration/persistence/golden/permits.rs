//! Permits with numbers, and labels, in files and payloads: of the version that wrote them first, in form 3 of encoding 1 and
//! in `LOCK.APPLY` with a slot and a label; and of the first version with encoding 2, which has names for the fields in `LOCK.APPLY`.

use std::fmt::Write as _;
use std::fs;

use super::make::{FAR, copy, until};
use super::{golden, load};
use crate::support::{Client, Server, Setup};

/// `make` writes the last one.
const FOLDERS: [&str; 2] = ["encoding-1-permits", "encoding-2"];
const KEYS: [&str; 8] = ["alone", "label", "mixed", "many", "permits", "plain", "upgraded", "uuid"];

/// What is held when the files are written: by grants of all kinds, with a slot or a label or both.
fn fill(client: &mut Client) {
    let far = until(FAR);
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

/// What happens after an append-only file has been rewritten.
fn tail(client: &mut Client) {
    let far = until(FAR);
    client.acquire("permits", &format!("OWNER d LIMIT 4 SLOT 4 PX {far} LABEL any,bytes/7")).unwrap();
    client.acquire("label", &format!("OWNER a ONCE PX {far} LABEL 10.0.0.8:8080")).unwrap();
}

/// A line for each grant.
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

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn file(folder: &str, name: &str) -> Vec<u8> {
    fs::read(golden(folder).join(name)).unwrap()
}

fn text(folder: &str, name: &str) -> String {
    String::from_utf8(file(folder, name)).unwrap()
}

#[track_caller]
fn is(client: &mut Client, folder: &str) {
    assert_eq!(shown(client), text(folder, "shown"));
    // And they are in use.
    assert_eq!(client.acquire("permits", "OWNER e LIMIT 4").unwrap().slot, Some(2));
    assert_eq!(client.acquire("upgraded", "OWNER a ONCE LIMIT 7").unwrap().slot, Some(6));
}

#[test]
#[ignore = "writes the golden files of permits anew"]
fn make() {
    let [.., folder] = FOLDERS;
    fs::create_dir_all(golden(folder)).unwrap();
    let setup = Setup::new().set("appendonly", "yes").set("appendfsync", "always");
    let server = setup.set("aof-use-rdb-preamble", "no").start();
    let mut client = server.client();
    fill(&mut client);
    client.rewrite_aof();
    tail(&mut client);
    fs::write(golden(folder).join("shown"), shown(&mut client)).unwrap();
    copy(&server, ".base.", &format!("{folder}/aof-commands.base"));
    copy(&server, ".incr.", &format!("{folder}/aof-commands.incr"));
    client.ask::<()>("SAVE");
    fs::copy(server.folder().join("dump.rdb"), golden(folder).join("rdb.file")).unwrap();
    let dump = |key: &&str| format!("{key} {}\n", hex(&client.ask::<Vec<u8>>(&format!("DUMP {key}"))));
    fs::write(golden(folder).join("payloads"), KEYS.iter().map(dump).collect::<String>()).unwrap();
}

#[test]
fn an_rdb_file() {
    for folder in FOLDERS {
        let server = Setup::new().with_file("dump.rdb", file(folder, "rdb.file")).start();
        is(&mut server.client(), folder);
    }
}

#[test]
fn an_append_only_file() {
    for folder in FOLDERS {
        let server: Server = load::with_append_only_of(folder, "aof-commands", "aof");
        is(&mut server.client(), folder);
    }
}

#[test]
fn payloads() {
    for folder in FOLDERS {
        let (_server, mut client) = Server::and_client();
        for line in text(folder, "payloads").lines() {
            let (key, dump) = line.split_once(' ').unwrap();
            let pairs = dump.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
            let dump: Vec<u8> = pairs.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect();
            let ends = FAR.to_string();
            client.ask_words::<(), _>([b"RESTORE", key.as_bytes(), ends.as_bytes(), &dump, b"ABSTTL"]);
        }
        is(&mut client, folder);
    }
}
