//! The log's lines about long waits, and about lapses of locks that clients waited for.

use super::waits::queue_up;
use crate::support::{Server, Setup, Waiter, grant, server_time, wait_for, wait_until};

fn lines(server: &Server, what: &str) -> Vec<String> {
    server.log().lines().filter(|line| line.contains(what)).map(str::to_owned).collect()
}

#[track_caller]
fn wait_for_lines(server: &Server, what: &str, count: usize) -> Vec<String> {
    wait_for(what, || lines(server, what).len() >= count);
    let found = lines(server, what);
    assert_eq!(found.len(), count, "{found:#?}");
    found
}

/// Returns a server that logs waits which take longer than this many ms.
fn setup(limit: i64) -> Setup {
    Setup::new().module_args(&format!("log-wait {limit}"))
}

/// Waits for some heartbeats of the module.
fn some_beats(server: &Server) {
    let mut client = server.client();
    let until = server_time(&mut client) + 800;
    wait_until(&mut client, until);
}

/// Returns the number before `ms` that follows this text.
#[track_caller]
fn ms_after(line: &str, text: &str) -> i64 {
    let (_, rest) = line.split_once(text).unwrap_or_else(|| panic!("no {text:?} in {line}"));
    rest.split(' ').next().unwrap().parse().unwrap_or_else(|_| panic!("{line}"))
}

#[test]
fn who_waits_long_is_named_once_with_the_holder() {
    let (server, mut client) = setup(300).start_and_client();
    let fence = client.acquire("k", "OWNER alice PX 600000").unwrap().fence;
    let bob = Waiter::new(&server, "k", "OWNER bob");
    let line = &wait_for_lines(&server, "long wait", 1)[0];
    assert!(line.contains(&format!("long wait: owner \"bob\", client id={}, for ", bob.id)), "{line}");
    assert!(line.contains(" * ") || line.contains("notice"), "{line}");
    let (waited, held) = (ms_after(line, ", for "), ms_after(line, "held for "));
    assert!(waited >= 300 && held >= waited, "{line}");
    assert!(line.ends_with(&format!("by owner \"alice\", fence {fence}, key \"k\"")), "{line}");
    some_beats(&server);
    assert_eq!(lines(&server, "long wait").len(), 1);
    // The next waiter came later.
    let mut places = server.client();
    queue_up(&mut places, "k", "carol", "");
    let lines = wait_for_lines(&server, "long wait", 2);
    assert!(lines[1].contains("owner \"carol\""), "{lines:#?}");
    // The log names them by a package's channel, and by labels.
    let mut next = server.client();
    client.acquire("n", "OWNER u1 PX 600000 NOTIFY redislock:web-1:42:u1").unwrap();
    next.ask::<()>("LOCK.ACQUIRE n OWNER u2 PX 600000 BLOCK 600000 NOTIFY redislock:web-2:43:u2");
    client.acquire("l", "OWNER u3 LABEL daily PX 600000").unwrap();
    let _labelled = Waiter::new(&server, "l", "OWNER u4 LABEL nightly");
    let lines = wait_for_lines(&server, "long wait", 4).concat();
    for who in [
        "held for",
        "by owner \"u1\" (web-1:42), fence",
        "long wait: owner \"u2\" (web-2:43), client",
        "long wait: owner \"u4\" (nightly), client",
        "by owner \"u3\" (daily), fence",
    ] {
        assert!(lines.contains(who), "{who} is not in {lines}");
    }
}

#[test]
fn it_is_off_by_default_and_can_be_switched_on_and_off() {
    let (server, mut client) = Server::held();
    let _bob = Waiter::new(&server, "k", "OWNER bob");
    some_beats(&server);
    assert_eq!(lines(&server, "long wait").len(), 0);
    client.ask::<()>("CONFIG SET lock.log-wait 100");
    wait_for_lines(&server, "long wait", 1);
    client.ask::<()>("CONFIG SET lock.log-wait 0");
    let _carol = Waiter::new(&server, "k", "OWNER carol");
    some_beats(&server);
    assert_eq!(lines(&server, "long wait").len(), 1);
}

#[test]
fn it_says_why_nobody_holds_the_lock_and_how_many_do() {
    let (server, mut client) = setup(300).start_and_client();
    client.acquire("a", "OWNER alice PX 600000").unwrap();
    let _all = crate::several::waits(&server, "a free", "bob", "");
    let _behind = Waiter::new(&server, "free", "OWNER carol");
    for reader in ["r1", "r2", "r3"] {
        client.acquire("s", &format!("OWNER {reader} SHARED PX 600000")).unwrap();
    }
    let _writer = Waiter::new(&server, "s", "OWNER dave");
    let lines = wait_for_lines(&server, "long wait", 3);
    let of = |owner: &str| {
        let its = format!("owner \"{owner}\", client");
        lines.iter().find(|line| line.contains(&its)).unwrap_or_else(|| panic!("{owner}: {lines:#?}"))
    };
    assert!(of("bob").ends_with("key \"a\""), "{}", of("bob"));
    assert!(of("carol").ends_with("the lock is reserved for owner \"bob\", key \"free\""), "{}", of("carol"));
    assert!(of("dave").contains("by owner \"r1\"") && of("dave").contains(" and 2 more,"), "{}", of("dave"));
}

#[test]
fn a_second_has_ten_lines_and_the_others_are_counted() {
    let server = setup(1500).start();
    let (mut client, mut places) = (server.client(), server.client());
    client.acquire("k", "OWNER alice PX 600000").unwrap();
    let lines_of = |owner| format!("LOCK.ACQUIRE k OWNER w{owner} BLOCK 0 NOTIFY ch");
    places.ask_all::<String, _>(&(0..500).map(lines_of).collect::<Vec<_>>());
    // The lines come within one or two heartbeats.
    wait_for("all to be told or counted", || {
        let counted =
            lines(&server, "more long waits").iter().map(|line| ms_after(line, "<lock> ")).sum::<i64>();
        counted + lines(&server, "long wait: ").len() as i64 == 500
    });
    let told = lines(&server, "long wait: ");
    assert!((10..=30).contains(&told.len()), "{}", told.len());
    assert!(told[0].contains("owner \"w0\""), "{}", told[0]);
}

const NASTY: &[u8] = b"%s%n\r\n9:M * Forged line\n\0\x1b[2J\xff\"\\";
const SHOWN: &str = r#"%s%n\r\n9:M * Forged line\n\x00\x1b[2J\xff\"\\"#;

#[test]
fn names_are_escaped_in_the_log() {
    let (server, mut client) = setup(200).start_and_client();
    client.ask_words::<redis::Value, _>([b"LOCK.ACQUIRE", NASTY, b"OWNER", NASTY, b"PX", b"600000"]);
    let mut places = server.client();
    let wait = [b"LOCK.ACQUIRE", NASTY, b"OWNER", NASTY, b"BLOCK", b"0", b"NOTIFY", b"ch"];
    // The owner must be another one, because a holder would re-enter.
    let other = [NASTY, b"2"].concat();
    let wait: Vec<&[u8]> =
        wait.iter().enumerate().map(|(n, word)| if n == 3 { &other } else { *word }).collect();
    places.ask_words::<String, _>(wait);
    let line = &wait_for_lines(&server, "long wait", 1)[0];
    assert!(line.contains(&format!("long wait: owner \"{SHOWN}2\"")), "{line}");
    assert!(
        line.contains(&format!("by owner \"{SHOWN}\"")) && line.ends_with(&format!("key \"{SHOWN}\"")),
        "{line}"
    );
    let log = server.log();
    assert!(!log.lines().any(|line| line.starts_with("9:M")), "{log}");
    assert!(!log.bytes().any(|byte| byte == 0 || byte == 0x1b), "{log}");
}

/// At the default log level, verbose lines are left out.
#[test]
fn a_lapse_that_somebody_waited_for_is_a_notice() {
    let (server, mut client) = Server::and_client();
    let fence = client.acquire("waited", "OWNER alice PX 600000").unwrap().fence;
    client.acquire("unseen", "OWNER alice PX 1").unwrap();
    let mut bob = Waiter::new(&server, "waited", "OWNER bob PX 600000");
    let _carol = Waiter::new(&server, "waited", "OWNER carol");
    client.ask::<()>("LOCK.EXTEND waited alice PX 50");
    assert_eq!(grant(bob.client.finish().unwrap()).unwrap().owner, "bob");
    wait_for("the other lapse", || client.info("lock", "lock_lapses") == "2");
    let line = &wait_for_lines(&server, "lock lapsed", 1)[0];
    let expected = format!("lock lapsed: owner \"alice\", fence {fence}, waiters 2, key \"waited\"");
    assert!(line.ends_with(&expected), "{line}");
    // One of several grants lapses.
    client.acquire("s", "OWNER r1 SHARED PX 600000").unwrap();
    client.acquire("s", "OWNER r2 SHARED PX 600000 LABEL reader").unwrap();
    let _writer = Waiter::new(&server, "s", "OWNER dave");
    client.ask::<()>("LOCK.EXTEND s r2 PX 50");
    let lines = wait_for_lines(&server, "lock lapsed", 2);
    assert!(
        lines[1].contains("owner \"r2\" (reader), fence ") && lines[1].ends_with("waiters 1, key \"s\""),
        "{}",
        lines[1]
    );
}

/// All locks lapse in one millisecond. At the verbose level each has its line.
#[test]
fn of_many_lapses_ten_a_second_are_notices() {
    const MANY: usize = 300;
    for level in ["notice", "verbose"] {
        let server = Setup::new().set("loglevel", level).start();
        let (mut client, mut places) = (server.client(), server.client());
        let each = |line: &str| (0..MANY).map(|n| line.replace('#', &n.to_string())).collect::<Vec<_>>();
        client.ask_all::<redis::Value, _>(&each("LOCK.ACQUIRE k# OWNER alice PX 600000"));
        places.ask_all::<String, _>(&each("LOCK.ACQUIRE k# OWNER bob BLOCK 0 NOTIFY ch"));
        client.ask::<()>("MULTI");
        client.ask_all::<String, _>(&each("LOCK.EXTEND k# alice PX 200"));
        client.ask::<redis::Value>("EXEC");
        // Each lock passes to bob, who is not told of it, and lapses again.
        wait_for("all to lapse", || client.ask::<i64>("DBSIZE") == 0);
        let lapses: usize = client.info("lock", "lock_lapses").parse().unwrap();
        assert_eq!(lapses, MANY);
        let left_out = || {
            let counts = lines(&server, "more lapses that somebody waited for");
            counts.iter().map(|line| ms_after(line, "<lock> ")).sum::<i64>() as usize
        };
        let written = || lines(&server, "lock lapsed: owner \"alice\"");
        let notices = || written().iter().filter(|line| line.contains(" * <lock> ")).count();
        wait_for("the count", || left_out() > 0 && notices() + left_out() == lapses);
        let (notices, written) = (notices(), written().len());
        assert!((10..=30).contains(&notices), "{notices}");
        assert_eq!(written, if level == "notice" { notices } else { lapses });
    }
}
