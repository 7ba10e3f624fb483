//! `redislock ls`, `show`, `break` and `bench`.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::process::Stdio;

use super::top::Screen;
use super::{Running, command, redislock, url};
use crate::support::{Client, Server, Waiter, server_time, wait_for, wait_until};

/// Alice holds `a` with a label, two readers hold `r`, and Bob waits for `a`; there are also other keys.
fn some() -> (Server, Client, Waiter) {
    let (server, mut client) = super::with_client();
    client.ask::<()>("LOCK.ACQUIRE a OWNER alice LABEL nightly");
    client.ask::<()>("LOCK.ACQUIRE r OWNER one SHARED");
    client.ask::<()>("LOCK.ACQUIRE r OWNER two SHARED PX 60000");
    client.ask::<()>("SET data x");
    let waiter = Waiter::new(&server, "a", "OWNER bob");
    (server, client, waiter)
}

#[test]
fn locks_are_listed_with_who_holds_them() {
    let (server, _client, _waiter) = some();
    let ran = redislock(&server, &["ls"]);
    let rows: Vec<Vec<&str>> = ran.out.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0], ["KEY", "HOLDER", "HELD", "LEASE", "HOLDERS", "WAITERS"]);
    assert_eq!((&rows[1][..2], &rows[1][rows[1].len() - 2..]), (&["a", "nightly"][..], &["1", "1"][..]));
    assert_eq!((&rows[2][..2], &rows[2][rows[2].len() - 2..]), (&["r", "one"][..], &["2", "0"][..]));
    assert_eq!(rows.len(), 3);
    assert_eq!(redislock(&server, &["ls", "nothing*"]).out, "no locks\n");
    let json: serde_json::Value =
        serde_json::from_str(&redislock(&server, &["ls", "r", "--json"]).out).unwrap();
    assert_eq!((json[0]["key"].as_str(), json[0]["holders"].as_u64()), (Some("r"), Some(2)));
    assert!(json[0]["lease_ms"].as_u64().unwrap() > 0);
}

#[test]
fn a_list_is_narrowed_repeated_and_cut_to_the_terminal() {
    let (server, mut client, waiter) = some();
    let keys = |words: &[&str]| {
        let ran = redislock(&server, &[&["ls", "--json"], words].concat());
        let locks: Vec<serde_json::Value> =
            serde_json::from_str(&ran.out).unwrap_or_else(|_| panic!("{ran:?}"));
        locks.iter().map(|lock| lock["key"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(keys(&["--waiting"]), ["a"]);
    let held = server_time(&mut client);
    wait_until(&mut client, held + 1_000);
    client.ask::<()>("LOCK.ACQUIRE new OWNER alice");
    assert_eq!(keys(&["--older", "1s"]), ["a", "r"]);
    assert_eq!(keys(&["--older", "1h"]), [""; 0]);
    let screen = Screen::sized(&url(&server), &["ls", "--watch=100ms"], (60, 5));
    screen.shows("new");
    drop(waiter);
    wait_for("the waiter to go", || {
        screen.text().contains("a    nightly") && !screen.text().contains("1        1")
    });
    client.ask::<()>(&format!("LOCK.ACQUIRE {} OWNER alice", "k".repeat(1_000)));
    wait_for("what fits", || screen.text().contains("kkk…  alice") && screen.text().contains("and 2 more"));
    assert_eq!(redislock(&server, &["ls"]).out.lines().map(str::len).filter(|wide| *wide > 100).count(), 1);
}

#[test]
fn a_lock_is_shown_with_all_who_hold_and_wait() {
    let (server, _client, _waiter) = some();
    let ran = redislock(&server, &["show", "a"]);
    for part in ["held by 1\n", "nightly", "alice", "waited for by 1\n", "bob", "127.0.0.1:", "for ever"] {
        assert!(ran.out.contains(part), "{part} is not in\n{}", ran.out);
    }
    let json: serde_json::Value =
        serde_json::from_str(&redislock(&server, &["show", "a", "--json"]).out).unwrap();
    assert_eq!(json["grants"][0]["label"], "nightly");
    assert_eq!(json["queue"][0]["owner"], "bob");
    assert!(json["queue"][0]["address"].as_str().unwrap().starts_with("127.0.0.1:"));
    assert_eq!(redislock(&server, &["show", "free"]).out, "free is free\n");
    assert_eq!(redislock(&server, &["show", "free", "--json"]).out, "null\n");
}

#[test]
fn what_clients_name_can_not_steer_the_terminal() {
    let (server, mut client) = super::with_client();
    client.ask_words::<(), _>(["LOCK.ACQUIRE", "k\u{1b}[2J", "OWNER", "me", "LABEL", "\u{1b}]0;title\u{7}"]);
    for words in [&["ls"] as &[_], &["show", "k\u{1b}[2J"], &["run", "k\u{1b}[2J", "--no-wait", "--", "true"]]
    {
        let ran = redislock(&server, words);
        assert!(!ran.out.contains('\u{1b}') && !ran.err.contains('\u{1b}'), "{ran:?}");
    }
}

#[test]
fn a_name_that_is_no_text_is_shown_as_it_can_be_given() {
    let (server, mut client) = super::with_client();
    client.ask_words::<(), _>([b"LOCK.ACQUIRE" as &[u8], b"k\xff\n", b"OWNER", b"\xfe", b"PX", b"600000"]);
    let listed = redislock(&server, &["ls"]).out;
    assert_eq!(
        listed.lines().nth(1).unwrap().split_whitespace().collect::<Vec<_>>()[..2],
        [r"k\xff\x0a", r"\xfe"]
    );
    for name in [OsStr::new(r"k\xff\x0a"), OsStr::from_bytes(b"k\xff\n")] {
        let with = |words: &[&str]| {
            let mut command = command(&url(&server), &words[..1]);
            command.arg(name).args(&words[1..]);
            super::ended(command)
        };
        assert!(with(&["show"]).out.starts_with("k\\xff\\x0a\n\nheld by 1\n"), "{name:?}");
        let ran = with(&["run", "--no-wait", "--", "true"]);
        assert_eq!(ran.code, Some(75));
        assert!(ran.err.starts_with(r"redislock: k\xff\x0a is held by \xfe (fence "), "{}", ran.err);
    }
    let json: serde_json::Value = serde_json::from_str(&redislock(&server, &["ls", "--json"]).out).unwrap();
    let key = json[0]["key"].as_str().unwrap();
    assert!(redislock(&server, &["break", key, "--yes"]).out.starts_with(r"k\xff\x0a: ended 1 of 1:"));
    let ran = redislock(&server, &["run", r"k\x00", "--", "sh", "-c", "echo $REDISLOCK_KEY"]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), "k\\x00\n"), "{}", ran.err);
}

#[test]
fn a_lock_is_broken_only_by_who_says_so() {
    let (server, mut client, waiter) = some();
    let refused = redislock(&server, &["break", "a"]);
    assert_eq!(refused.code, Some(64), "nobody can be asked");
    assert_eq!(client.holders("a").remove(0).owner, "alice");

    let fence = client.holders("a").remove(0).fence;
    let ran = redislock(&server, &["break", "a", "--yes", "--fence", &(fence + 1).to_string()]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(1), "a: nothing to end: no grant has that fence\n"));

    let ran = redislock(&server, &["break", "a", "--yes"]);
    assert!(
        ran.out.starts_with(&format!("a: ended 1 of 1:\n  nightly (fence {fence}), for ")),
        "{}",
        ran.out
    );
    assert_eq!(client.holders("a").remove(0).owner, "bob");
    drop(waiter);
    let ran = redislock(&server, &["break", "r", "--yes"]);
    assert!(ran.out.starts_with("r: ended 2 of 2:\n  one (fence "), "{}", ran.out);
    assert!(client.holders("r").is_empty());
    let ran = redislock(&server, &["break", "free", "--yes"]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(1), "free: nothing to end: it is free\n"));
}

/// Without a label, only the package's channel shows which process holds the lock or waits.
#[test]
fn a_stuck_process_is_found_and_its_lock_broken() {
    let (server, mut client) = super::with_client();
    let stuck = Running::holding(&server, "k", &["--label", ""], "sleep 60");
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let name = |running: &Running| format!("{}:{}", host.trim(), running.pid().as_raw_nonzero());
    let waiting = Running::start(&server, &["run", "k", "--label", "", "--", "sleep", "60"]);
    wait_for("the other one to wait", || client.lock_info("k").is_some_and(|lock| lock["waiters"] == "1"));
    let fence = client.holders("k").remove(0).fence.to_string();
    let says = |words: &[&str], who: &str| {
        let ran = redislock(&server, words);
        assert!(format!("{}{}", ran.out, ran.err).contains(who), "{words:?}: {ran:?}");
    };
    says(&["ls"], &name(&stuck));
    says(&["show", "k"], &name(&stuck));
    says(&["show", "k"], &name(&waiting));
    says(&["run", "k", "--no-wait", "--", "true"], &format!("held by {}", name(&stuck)));
    says(&["break", "k", "--fence", &fence, "--yes"], &name(&stuck));
    wait_for("the next one to hold", || redislock(&server, &["ls"]).out.contains(&name(&waiting)));
}

#[test]
fn a_benchmark_says_ratios_and_leaves_nothing() {
    let (server, mut client) = super::with_client();
    let ran = redislock(&server, &["bench", "--time", "200ms", "--clients", "3"]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert!(ran.out.contains("handovers between 3 clients, a second"), "{}", ran.out);
    wait_for("no key", || client.ask::<i64>("DBSIZE") == 0);
}

#[test]
fn a_man_page_comes_from_the_program_itself() {
    let server = Server::start();
    let folder = server.folder().join("man");
    std::fs::create_dir(&folder).unwrap();
    assert_eq!(redislock(&server, &["man", folder.to_str().unwrap()]).code, Some(0));
    for (name, part) in [
        ("redislock", "REDIS_URL"),
        ("redislock", "75"),
        ("redislock-run", "once"),
        ("redislock-run", "REDISLOCK_FENCE"),
        ("redislock-run", "the lock was lost while the command ran"),
        ("redislock-top", "Up and Down select a lock"),
        ("redislock-break", "A holder is not stopped"),
        ("redislock-bench", "removed afterwards"),
    ] {
        let page = std::fs::read_to_string(folder.join(format!("{name}.1"))).unwrap();
        assert!(page.contains(part), "{part} is not in {name}");
        let words: Vec<&str> = name.split('-').skip(1).chain(["--help"]).collect();
        assert!(redislock(&server, &words).out.contains(part), "{part} is not in the help of {name}");
    }
}

#[test]
fn colours_are_for_terminals() {
    let server = Server::start();
    let mut doctor = command(&url(&server), &["doctor"]);
    doctor.stdout(Stdio::piped());
    assert!(!Running(doctor.spawn().unwrap()).end().out.contains('\u{1b}'));
}
