//! What others learn of locks that somebody waits for: events in their order, and lines in the log.

use crate::support::{Listener, Server, Setup, Waiter, soon, transaction, wait_for};

#[test]
fn a_release_to_a_waiter_is_a_release_and_an_acquire() {
    let server = Server::start();
    let mut client = server.client();
    let mut listener = Listener::new(&server, "Ed");
    client.acquire("k", "OWNER alice").unwrap();
    let mut bob = Waiter::new(&server, "k", "OWNER bob");
    client.ask::<()>("LOCK.EXTEND k alice");
    client.ask::<()>("LOCK.RELEASE k alice");
    bob.granted();
    client.ask::<()>("LOCK.RELEASE k bob");
    let events =
        ["acquired", "extended", "released", "acquired", "released"].map(|event| format!("lock.{event} k"));
    assert_eq!(listener.next(), events);
    listener.nothing_but(&server, &[]);
}

#[test]
fn a_break_and_a_lapse_say_so_before_the_next_acquire() {
    let server = Server::start();
    let mut client = server.client();
    let mut listener = Listener::new(&server, "Ed");
    client.acquire("k", "OWNER alice").unwrap();
    let mut bob = Waiter::new(&server, "k", "OWNER bob PX 600000");
    let mut carol = Waiter::new(&server, "k", "OWNER carol");
    client.ask::<()>("LOCK.BREAK k");
    bob.granted();
    client.ask::<()>("PEXPIRE k 30");
    carol.granted();
    let events =
        ["acquired", "broken", "acquired", "lapsed", "acquired"].map(|event| format!("lock.{event} k"));
    assert_eq!(listener.next(), events);
    listener.nothing_but(&server, &[]);
}

#[test]
fn a_lapse_with_nobody_waiting_is_told_when_the_key_goes() {
    let server = Server::start();
    let mut client = server.client();
    let mut listener = Listener::new(&server, "Edx");
    client.acquire("k", "OWNER alice PX 30").unwrap();
    wait_for("the key to go", || client.ask::<i64>("DBSIZE") == 0);
    let mut events: [String; 3] = listener.next();
    events[1..].sort();
    assert_eq!(events, ["lock.acquired k", "expired k", "lock.lapsed k"]);
    listener.nothing_but(&server, &[]);
}

#[test]
fn the_end_of_a_session_is_a_release() {
    let server = Server::start();
    let (mut alice, mut client) = (server.client(), server.client());
    let mut listener = Listener::new(&server, "Ed");
    alice.acquire("k", "OWNER alice PX 600000 SESSION").unwrap();
    let mut bob = Waiter::new(&server, "k", "OWNER bob");
    drop(alice);
    bob.granted();
    assert_eq!(listener.next(), ["lock.acquired k", "lock.released k", "lock.acquired k"]);
    client.ask::<()>("LOCK.RELEASE k bob");
    listener.nothing_but(&server, &["lock.released k"]);
}

#[test]
fn a_grant_to_a_waiter_that_died_is_taken_back_by_a_release() {
    let server = Server::start();
    let mut client = server.client();
    let mut listener = Listener::new(&server, "Ed");
    client.acquire("k", "OWNER alice").unwrap();
    let bob = Waiter::new(&server, "k", "OWNER bob");
    let mut carol = Waiter::new(&server, "k", "OWNER carol");
    let kill = format!("CLIENT KILL ID {}", bob.id);
    transaction(&mut client, &["LOCK.RELEASE k alice", &kill]);
    carol.granted();
    let events =
        ["acquired", "released", "acquired", "released", "acquired"].map(|event| format!("lock.{event} k"));
    assert_eq!(listener.next(), events);
    listener.nothing_but(&server, &[]);
}

/// A key that goes otherwise is no lapse: not one deleted, not a string that expires, not one where a lock was before.
#[test]
fn only_a_lock_whose_lease_ends_has_lapsed() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire("deleted", "OWNER alice").unwrap();
    client.acquire("overwritten", "OWNER alice").unwrap();
    client.acquire("flushed", "OWNER alice").unwrap();
    let mut bob = Waiter::new(&server, "deleted", "OWNER bob PX 600000");
    let listener = Listener::new(&server, "Ed");
    client.ask::<()>("DEL deleted");
    bob.granted();
    client.ask::<()>("SET overwritten text PX 1");
    client.ask::<()>("SET string text PX 1");
    wait_for("the strings to expire", || client.ask::<i64>("EXISTS overwritten string") == 0);
    client.ask::<()>("FLUSHALL");
    listener.nothing_but(&server, &["lock.acquired deleted"]);
}

#[test]
fn without_the_setting_nothing_is_published() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire("k", "OWNER alice").unwrap();
    let mut bob = Waiter::new(&server, "k", "OWNER bob PX 30");
    let mut carol = Waiter::new(&server, "k", "OWNER carol");
    assert_eq!(client.ask::<[String; 2]>("CONFIG GET notify-keyspace-events")[1], "");
    let listener = Listener::as_it_is(&server);
    client.ask::<()>("LOCK.RELEASE k alice");
    bob.granted();
    carol.granted();
    client.ask::<()>("LOCK.BREAK k");
    listener.nothing_but(&server, &[]);
}

/// Bytes that would break a log line or a format, and how they are shown.
const HOSTILE: [(&[u8], &str); 4] = [
    (b"%s%n%s%s", "%s%n%s%s"),
    (b"a\r\nb\0c", "a\\r\\nb\\x00c"),
    (b"\x1b[31m\"\xff", "\\x1b[31m\\\"\\xff"),
    (b"\\", "\\\\"),
];

/// The lines of the log that say so of a lock and an owner of that name.
fn lines(server: &Server, what: &str, shown: &str) -> usize {
    let (key, owner) = (format!("key \"{shown}\""), format!("owner \"{shown}\""));
    let log = server.log();
    log.lines().filter(|line| [what, &key, &owner].iter().all(|part| line.contains(part))).count()
}

#[test]
fn the_log_names_each_lapse_whatever_the_names_are() {
    let server = Setup::new().set("loglevel", "verbose").start();
    let mut client = server.client();
    for (bytes, shown) in HOSTILE {
        client.send_words([b"LOCK.ACQUIRE", bytes, b"OWNER", bytes, b"PX", b"20"]).unwrap();
        let words: [&[u8]; 6] = [b"LOCK.ACQUIRE", bytes, b"OWNER", b"bob", b"BLOCK", b"0"];
        client.send_words(words).unwrap();
        soon("a line in the log", || lines(&server, "lock lapsed: ", shown) == 1);
    }
    let log = server.log();
    assert_eq!(log.matches("lock lapsed").count(), HOSTILE.len(), "{log}");
}

#[test]
fn the_log_names_each_break_whatever_the_names_are() {
    let server = Server::start();
    let mut client = server.client();
    for (bytes, shown) in HOSTILE {
        client.send_words([b"LOCK.ACQUIRE", bytes, b"OWNER", bytes]).unwrap();
        assert_eq!(client.ask_words::<i64, _>([b"LOCK.BREAK", bytes]), 1);
        assert_eq!(lines(&server, "lock broken: ", shown), 1, "{}", server.log());
    }
    let log = server.log();
    assert_eq!(log.matches("lock broken").count(), HOSTILE.len(), "{log}");
}

#[test]
fn a_lapse_that_nobody_waited_for_is_no_line_at_the_usual_level() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire("k", "OWNER alice PX 20").unwrap();
    wait_for("a lapse", || client.info("lock", "lock_lapses") == "1");
    assert!(!server.log().contains("lock lapsed"));
}
