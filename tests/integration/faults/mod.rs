//! A panic in each callback of the module: the server's log says so, whoever is there to be answered gets `ERR internal
//! error`, nothing is changed, and the server goes on. The module is a debug build, which has `LOCK.FAULT`.

mod commands;
mod events;
mod files;
mod timers;
mod waiters;

use std::fs;
use std::path::{Path, PathBuf};

use crate::support::{Client, Server, Setup, module_path, root, wait_for};

const INTERNAL: &str = "ERR internal error";

/// All callbacks that a test of this module has panic. One that is guarded and not here makes a test fail.
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

/// Guarded too, and of no use to have panic: the text of an error, and what runs before there is a `LOCK.FAULT`.
const OTHERS: [&str; 2] = ["error-reply", "load"];

fn server() -> (Server, Client) {
    Setup::new().with_faults().start_and_client()
}

/// Has the next callback of that name panic.
#[track_caller]
fn arm(client: &mut Client, callback: &str) {
    assert!(callback.starts_with("lock.") || CALLBACKS.contains(&callback), "{callback}");
    assert_eq!(client.ask::<String>(&format!("LOCK.FAULT {callback}")), callback);
}

/// Waits until the fault has struck, and the log has it.
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

/// Acquire, handover and release work as if nothing had been.
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

/// The text of each file in a folder and in the folders in it.
fn texts(folder: &Path) -> Vec<String> {
    let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let of = |path: PathBuf| {
        if path.is_dir() { texts(&path) } else { vec![fs::read_to_string(path).unwrap()] }
    };
    paths.flat_map(of).collect()
}

/// The names in `guard(c"...` and of the timers, in the source.
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
