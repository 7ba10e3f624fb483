//! A panic in each callback of the module: the server logs it, a waiting client gets `ERR internal error`, nothing is changed, and the
//! server continues. The module is a debug build, which has `LOCK.FAULT`.

mod commands;
mod events;
mod files;
mod timers;
mod waiters;

use std::fs;
use std::path::{Path, PathBuf};

use crate::support::{Client, Server, Setup, module_path, root, wait_for};

const INTERNAL: &str = "ERR internal error";

/// The callbacks that tests make panic. If a guarded callback is missing here, a test fails.
const CALLBACKS: &[&str] = &[
    "due-work",
    "answers",
    "aof-rewrite",
    "audience",
    "aux-load",
    "aux-save",
    "client-event",
    "command-filter",
    "config-event",
    "config-set",
    "cron-event",
    "defrag",
    "digest",
    "disconnect",
    "evicted-event",
    "expired-event",
    "flush-event",
    "free",
    "free-client",
    "free-effort",
    "heartbeat",
    "info",
    "key-event",
    "key-ready",
    "lock.acquire",
    "look",
    "loop-event",
    "mem-usage",
    "rdb-load",
    "rdb-save",
    "replicas",
    "reply",
    "role-event",
    "swap-event",
    "unblock",
    "unlink",
];

/// Guarded callbacks that are not tested: the text of an error, and the load of the module, before `LOCK.FAULT` exists.
const OTHERS: [&str; 2] = ["error-reply", "load"];

fn server() -> (Server, Client) {
    Setup::new().with_faults().start_and_client()
}

/// Makes the next callback with this name panic.
#[track_caller]
fn arm(client: &mut Client, callback: &str) {
    assert!(callback.starts_with("lock.") || CALLBACKS.contains(&callback), "{callback}");
    assert_eq!(client.ask::<String>(&format!("LOCK.FAULT {callback}")), callback);
}

/// Waits until the callback has panicked, and the log shows it.
#[track_caller]
fn struck(server: &Server, client: &mut Client, callback: &str) {
    wait_for(&format!("a fault in {callback}"), || client.ask::<String>("LOCK.FAULT").is_empty());
    logged(server, callback);
    assert_eq!(client.ask::<String>("PING"), "PONG");
}

#[track_caller]
fn logged(server: &Server, callback: &str) {
    let line = format!("internal error in {callback}: panicked at src");
    wait_for(&line, || server.log().contains(&line));
}

/// Checks that acquire, handover and release still work.
#[track_caller]
fn goes_on(server: &Server) {
    let mut client = server.client();
    client.acquire("after", "OWNER alice").unwrap();
    let mut waiter = crate::support::Waiter::new(server, "after", "OWNER bob");
    assert_eq!(client.ask::<i64>("LOCK.RELEASE after alice"), 0);
    assert_eq!(waiter.granted().owner, "bob");
    assert_eq!(client.ask::<i64>("LOCK.RELEASE after bob"), 0);
    assert_eq!(client.holder("after"), None);
}

/// Returns the text of each file in a folder and its subfolders.
fn texts(folder: &Path) -> Vec<String> {
    let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let of = |path: PathBuf| {
        if path.is_dir() { texts(&path) } else { vec![fs::read_to_string(path).unwrap()] }
    };
    paths.flat_map(of).collect()
}

/// The test finds the names in `guard(c"...` and the names of timers in the source.
#[test]
fn every_guarded_callback_is_tested() {
    let source = root().join("src");
    let mut names: Vec<String> = Vec::new();
    for folder in ["server", "serving"] {
        for text in texts(&source.join(folder)) {
            for mark in ["guard(c\"", "impl TimerTask for "] {
                for (place, _) in text.match_indices(mark) {
                    names.push(text[place..].split('"').nth(1).unwrap().into());
                }
            }
        }
    }
    names.sort();
    names.dedup();
    // Commands are guarded by their own names.
    let mut known: Vec<&str> = CALLBACKS.iter().chain(&OTHERS).copied().collect();
    known.retain(|name| !name.starts_with("lock."));
    known.sort_unstable();
    assert_eq!(names, known);
}

#[test]
fn the_released_module_has_none_of_it() {
    let server = Server::start();
    assert!(server.client().refused("LOCK.FAULT lock.acquire").starts_with("ERR unknown command"));
    let module = fs::read(module_path()).unwrap();
    let has = |text: &[u8]| module.windows(text.len()).any(|part| part.eq_ignore_ascii_case(text));
    assert!(has(b"lock.settle"), "the name of another command is there");
    assert!(!has(b"lock.fault") && !has(b"a fault that was asked for"));
}
