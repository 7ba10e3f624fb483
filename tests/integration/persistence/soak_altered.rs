//! Files cut off and altered: the server refuses to start, and says so, or starts with locks in range.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::input::payload::in_range;
use crate::support::{Client, Payload, Rng, Server, Setup, figure, module_path, seal, size};

/// A file among others of a server.
struct Folder {
    setup: Setup,
    files: BTreeMap<PathBuf, Vec<u8>>,
    /// The one to alter.
    file: PathBuf,
}

/// How often which of both happened.
#[derive(Default)]
struct Outcomes {
    refused: usize,
    /// Of these: the server did not end by itself, but went on to look for what is wrong.
    given_up: usize,
    /// Of these: the server crashed in code of its own.
    crashed: usize,
    started: usize,
}

/// A few locks of every kind, and something else.
fn fill(client: &mut Client) {
    client.acquire("uuid", "PX 600000").unwrap();
    client.acquire("name", "OWNER alice MAXHOLD 700000 PX 600000").unwrap();
    client.acquire("name", "OWNER alice PX 650000").unwrap();
    client.acquire("endless", "OWNER bob").unwrap();
    client.ask::<()>("PERSIST endless");
    client.ask::<()>("SET string text");
}

impl Folder {
    /// What the server left behind; the file that ends like that is to be altered.
    fn of(server: Server, setup: Setup, end: &str) -> Self {
        let mut files = BTreeMap::new();
        read(server.folder(), server.folder(), &mut files);
        let file = files.keys().find(|path| path.to_string_lossy().ends_with(end)).unwrap().clone();
        Self { setup, files, file }
    }

    fn bytes(&self) -> &[u8] {
        &self.files[&self.file]
    }

    /// Starts a server on the file with these bytes in place of its own.
    #[track_caller]
    fn start(&self, what: &str, bytes: Vec<u8>, outcomes: &mut Outcomes) {
        let mut setup = self.setup.clone();
        for (path, old) in &self.files {
            let bytes = if *path == self.file { &bytes } else { old };
            setup = setup.with_file(path, bytes.as_slice());
        }
        let log = match setup.try_start() {
            Err(log) => {
                let given_up = log.contains("ended: killed, as it had given the file up");
                let crashed = crashed_without_the_module(&log);
                assert!(given_up || crashed || log.contains("ended: exit status: "), "{what}: {log}");
                outcomes.refused += 1;
                outcomes.given_up += usize::from(given_up);
                outcomes.crashed += usize::from(crashed);
                if crashed {
                    return;
                }
                log
            }
            Ok(server) => {
                outcomes.started += 1;
                all_in_range(&mut server.client(), what);
                server.log()
            }
        };
        for word in ["BUG REPORT", "panicked", "internal error"] {
            assert!(!log.contains(word), "{what}: {log}");
        }
    }
}

/// Did the server crash while none of the module's functions was running? It does so where a number before a key became the size
/// of a table that no memory is large enough for.
fn crashed_without_the_module(log: &str) -> bool {
    let module = module_path().file_name().unwrap().to_str().unwrap();
    log.split_once("STACK TRACE ---")
        .and_then(|(_, rest)| rest.split_once("INFO OUTPUT ---"))
        .is_some_and(|(stack, _)| !stack.contains(module) && !log.contains("panicked"))
}

fn read(folder: &Path, root: &Path, files: &mut BTreeMap<PathBuf, Vec<u8>>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            read(&path, root, files);
        } else if path.extension().is_some() && path.extension().unwrap() != "conf" {
            files.insert(path.strip_prefix(root).unwrap().into(), fs::read(&path).unwrap());
        }
    }
}

/// Each lock is in range, and what the server would save, it can load.
#[track_caller]
fn all_in_range(client: &mut Client, what: &str) {
    for db in 0..16 {
        client.ask::<()>(&format!("SELECT {db}"));
        for key in client.ask::<Vec<Vec<u8>>>("KEYS *") {
            if client.ask_words::<String, _>([b"TYPE", &key[..]]) == "lockstate" {
                in_range(client.send_words([b"LOCK.INFO", &key[..], b"FULL"]).unwrap(), what);
                let dump: Vec<u8> = client.ask_words([b"DUMP", &key[..]]);
                let again = client.send_words([b"RESTORE", &key[..], b"600000", &dump, b"REPLACE"]);
                assert!(again.is_ok(), "{what}: {again:?} for what was loaded");
            }
        }
    }
}

/// The alterations: cut off, and changed, at each of so many places, and so many at random.
#[track_caller]
fn alter(name: &str, folder: &Folder, from: usize, sealed: bool, every: usize, random: usize) {
    let mut rng = Rng::new();
    let bytes = folder.bytes().to_vec();
    let end = bytes.len() - if sealed { 8 } else { 0 };
    let mut outcomes = Outcomes::default();
    folder.start("unaltered", bytes.clone(), &mut outcomes);
    assert_eq!(outcomes.started, 1);
    let first = rng.below(every);
    for place in (0..end).skip(first).step_by(every) {
        folder.start(&format!("cut off at {place}"), bytes[..place].to_vec(), &mut outcomes);
        if place < from {
            continue;
        }
        let mut altered = bytes.clone();
        altered[place] ^= 1 + rng.below(255) as u8;
        if sealed {
            seal(&mut altered);
        }
        let what = format!("byte {place} is {} now", altered[place]);
        folder.start(&what, altered, &mut outcomes);
    }
    for _ in 0..random {
        let mut altered = bytes.clone();
        let mut what = String::new();
        for _ in 0..2 + rng.below(3) {
            let place = from + rng.below(end - from);
            altered[place] = rng.next() as u8;
            what += &format!("byte {place} is {} now, ", altered[place]);
        }
        if sealed {
            seal(&mut altered);
        }
        folder.start(&what, altered, &mut outcomes);
    }
    let Outcomes { refused, given_up, crashed, started } = outcomes;
    figure(
        &format!("altered {name}"),
        format_args!(
            "{} bytes, {} starts: {refused} refused ({given_up} without an end, {crashed} by a crash of the server's own), {started} with \
             locks in range",
            bytes.len(),
            refused + started
        ),
    );
}

/// Where the keys begin, and before them what the module keeps beside them: what stands before is the server's.
fn keys_begin(file: &[u8], client: &mut Client) -> usize {
    let type_id = Payload::lock(client, b"x", 1, 1).body()[1..9].to_vec();
    file.windows(type_id.len()).position(|bytes| bytes == type_id).unwrap() - 1
}

#[test]
fn an_altered_rdb_file_is_refused_or_loads() {
    let (server, mut client) = Server::and_client();
    fill(&mut client);
    client.ask::<()>("SAVE");
    let from = {
        let file = fs::read(server.folder().join("dump.rdb")).unwrap();
        keys_begin(&file, &mut client)
    };
    drop(client);
    let folder = Folder::of(server, Setup::new(), "dump.rdb");
    alter("RDB file", &folder, from, true, size(20, 1), size(5, 300));
}

#[test]
fn a_crash_of_the_servers_own_is_told_from_one_of_the_module() {
    // Version 10; database 0; "its tables have so many keys": 2^56; a is "b"; the end; no checksum.
    let file = b"REDIS0010\xfe\x00\xfb\x81\x00\xff\xff\xff\xff\xff\xff\xff\x00\x00\x01a\x01b\xff\x00\x00\x00\x00\x00\x00\x00\x00";
    let Err(log) = Setup::new().with_file("dump.rdb", file.as_slice()).try_start() else {
        // Redis 8.0 and Valkey 8.0 go on with a smaller table.
        let (_server, mut client) = Server::and_client();
        let version = |client: &mut Client, of: &str| client.info("server", of).starts_with("8.0.");
        assert!(version(&mut client, "redis_version") || version(&mut client, "valkey_version"));
        return;
    };
    assert!(crashed_without_the_module(&log), "{log}");
    let frame = module_path().display().to_string() + "(+0x1234)[0x7f0000001234]\n";
    let of_ours = log.replacen("------ INFO OUTPUT", &(frame + "------ INFO OUTPUT"), 1);
    assert!(!crashed_without_the_module(&of_ours), "{of_ours}");
}

fn with_aof() -> Setup {
    Setup::new().set("appendonly", "yes").set("appendfsync", "always")
}

#[test]
fn an_altered_append_only_file_is_refused_or_loads() {
    let server = with_aof().start();
    fill(&mut server.client());
    let folder = Folder::of(server, with_aof(), ".incr.aof");
    alter("append-only file", &folder, 0, false, size(60, 1), size(5, 300));
}

/// As an append-only file has a command.
fn written(words: &[&str]) -> Vec<u8> {
    let words: String = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len())).collect();
    format!("*{}\r\n{words}", words.matches('$').count()).into_bytes()
}

#[test]
fn effects_out_of_range_in_an_append_only_file() {
    let (long, max, beyond) = ("x".repeat(129), u64::MAX.to_string(), (1_u64 << 53).to_string());
    let server = with_aof().start();
    fill(&mut server.client());
    let folder = Folder::of(server, with_aof(), ".incr.aof");
    let mut bytes = folder.bytes().to_vec();
    let effects = [
        ["", "5", "1", "0", "-1"],
        [&long, "5", "1", "0", "-1"],
        ["owner", "0", "1", "0", "-1"],
        ["owner", "-1", "1", "0", "-1"],
        ["owner", &beyond, "1", "0", "-1"],
        ["owner", &max, "1", "0", "-1"],
        ["owner", "5", "0", "0", "-1"],
        ["owner", "5", "-1", "0", "-1"],
        ["owner", "5", "4294967296", "0", "-1"],
        ["owner", "5", "1", &beyond, "-1"],
        ["owner", "5", "1", "9223372036854775807", "-1"],
        ["owner", "5", "1", "-9223372036854775808", "-1"],
        ["owner", "5", "1", "0", "9223372036854775807"],
        ["owner", "5", "1", "0", "-9223372036854775808"],
        ["owner", "5", "1", "x", "-1"],
    ];
    for (number, words) in effects.iter().enumerate() {
        for key in ["name", "string", &format!("free{number}")] {
            let [owner, fence, holds, max_hold, deadline] = words;
            let state = format!("{deadline},{fence},{holds},{max_hold},{owner}");
            bytes.extend(written(&["LOCK.APPLY", key, &state]));
        }
    }
    for state in [
        "",
        ",",
        "x",
        "x,5,1,0,alice",
        "-1,",
        "-1,5",
        "-1,5,1",
        "-1,5,1,0",
        " -1,5,1,0,alice",
        "9223372036854775808",
    ] {
        bytes.extend(written(&["LOCK.APPLY", "name", state]));
    }
    bytes.extend(written(&["LOCK.APPLY", "name", "-1,5,1,0,alice", "more"]));
    let mut outcomes = Outcomes::default();
    folder.start("effects out of range", bytes.clone(), &mut outcomes);
    assert_eq!(outcomes.started, 1, "an append-only file is read on past commands that are refused");

    // Too few words: Valkey 8.1 and later refuse the file by themselves, other servers leave it to the module.
    bytes.extend(written(&["LOCK.APPLY"]));
    let valkey = Server::start().client().info("server", "valkey_version");
    let refuses = !valkey.is_empty() && !valkey.starts_with("8.0.");
    let mut outcomes = Outcomes::default();
    folder.start("effects without a key", bytes, &mut outcomes);
    assert_eq!((outcomes.started, outcomes.refused), if refuses { (0, 1) } else { (1, 0) });
}
