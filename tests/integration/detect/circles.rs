//! `DETECT`: a wait that would never end is reported at once.

use redis::Value;

use crate::support::{Client, Server, Waiter, wait_for};

pub(crate) const WOULD: &str = "DEADLOCK this wait would never end: ";

/// Each of these owners takes the lock with its name and an "s" at the end, for ten minutes.
#[track_caller]
pub(crate) fn hold(client: &mut Client, owners: &str) {
    for owner in owners.split_whitespace() {
        client.acquire(&format!("{owner}s"), &format!("OWNER {owner} PX 600000")).expect("a grant");
    }
}

#[track_caller]
pub(crate) fn waits(server: &Server, key: &str, owner: &str) -> Waiter {
    Waiter::new(server, key, &format!("OWNER {owner} PX 600000 DETECT"))
}

/// Checks that the request is refused with this cycle, and that it changes nothing.
#[track_caller]
fn is_told(client: &mut Client, line: &str, circle: &str) {
    let (before, waiting) = (client.snapshot(), client.info("lock", "lock_waiters"));
    assert_eq!(client.refused(line), format!("{WOULD}{circle}"), "{line}");
    assert_eq!(client.snapshot(), before, "{line}");
    assert_eq!(client.info("lock", "lock_waiters"), waiting, "{line}");
}

#[test]
fn a_circle_is_told_only_to_who_asks_and_would_wait() {
    let (server, mut client) = Server::and_client();
    hold(&mut client, "a b");
    let mut a = Waiter::new(&server, "bs", "OWNER a");
    for line in ["LOCK.ACQUIRE as OWNER b DETECT", "LOCK.ACQUIRE as OWNER b DETECT NOTIFY c"] {
        assert_eq!(client.ask::<Value>(line), Value::Nil, "{line}");
    }
    client.ask::<()>("MULTI");
    client.ask::<()>("LOCK.ACQUIRE as OWNER b BLOCK 0 DETECT");
    assert_eq!(client.ask::<Vec<Value>>("EXEC"), [Value::Nil], "there, nobody waits");
    let mut b = Waiter::new(&server, "as", "OWNER b");
    assert_eq!(client.info("lock", "lock_deadlocks"), "0");
    // A request without a cycle of its own waits, even behind clients that are in a cycle.
    let mut c = waits(&server, "as", "c");
    assert_eq!(client.ask::<i64>("LOCK.RELEASE as a"), 0);
    assert_eq!(b.granted().owner, "b");
    assert_eq!(client.ask::<i64>("LOCK.RELEASE as b"), 0);
    assert_eq!(client.ask::<i64>("LOCK.RELEASE bs b"), 0);
    assert_eq!((a.granted().owner, c.granted().owner), ("a".into(), "c".into()));
}

#[test]
fn a_long_circle_is_told_in_part() {
    let (server, mut client) = Server::and_client();
    let owners: Vec<String> = (0..12).map(|number| format!("t{number}")).collect();
    hold(&mut client, &owners.join(" "));
    let _waiters: Vec<Waiter> =
        (1..12).map(|number| waits(&server, &format!("t{}s", (number + 1) % 12), &owners[number])).collect();
    let link = |number: usize| format!("t{number} waits for \"t{0}s\" held by t{0}", number + 1);
    let circle = (0..8).map(link).collect::<Vec<_>>().join(", ");
    is_told(&mut client, "LOCK.ACQUIRE t1s OWNER t0 BLOCK 0 DETECT", &format!("{circle}, and 4 more"));
}

/// A waiter in front also waits for another lock.
#[test]
fn a_circle_through_those_who_came_before_is_told() {
    let (server, mut client) = Server::and_client();
    hold(&mut client, "a b");
    let words = "LOCK.MACQUIRE 2 as free OWNER c BLOCK 0";
    let mut c = Waiter::of_words(&server, server.client(), words.split(' '));
    let _b = waits(&server, "free", "b");
    is_told(
        &mut client,
        "LOCK.ACQUIRE bs OWNER a BLOCK 0 DETECT",
        r#"a waits for "bs" held by b, b waits for "free" behind c, c waits for "as" held by a"#,
    );
    is_told(
        &mut client,
        "LOCK.MACQUIRE 2 other bs OWNER a BLOCK 0 DETECT",
        r#"a waits for "bs" held by b, b waits for "free" behind c, c waits for "as" held by a"#,
    );
    assert_eq!(client.ask::<i64>("LOCK.RELEASE as a"), 0);
    c.reply().unwrap();
}

#[test]
fn a_circle_through_places_of_notify_is_told() {
    let (server, mut client) = Server::and_client();
    let _listener = crate::support::Mailbox::of(&server, "box");
    hold(&mut client, "a b");
    let place = "LOCK.ACQUIRE bs OWNER a BLOCK 0 NOTIFY box ONCE DETECT";
    for _ in 0..2 {
        assert_eq!(client.ask::<String>(place), "QUEUED");
    }
    is_told(
        &mut client,
        "LOCK.ACQUIRE as OWNER b BLOCK 0 NOTIFY box DETECT",
        r#"b waits for "as" held by a, a waits for "bs" held by b"#,
    );
    // If another client has closed the cycle without `DETECT`, asking again reports it, and the owner keeps its place.
    assert_eq!(client.ask::<String>("LOCK.ACQUIRE as OWNER b BLOCK 0 NOTIFY box"), "QUEUED");
    is_told(&mut client, place, r#"a waits for "bs" held by b, b waits for "as" held by a"#);
    assert_eq!(client.ask::<i64>("LOCK.LEAVE bs a"), 1);
}

/// A blocked connection can't release its locks, under whatever owner names it has acquired them.
#[test]
fn a_circle_through_all_sessions_of_a_connection_is_told() {
    let (server, mut client) = Server::and_client();
    client.acquire("one", "OWNER mine PX 600000 SESSION").unwrap();
    is_told(
        &mut client,
        "LOCK.ACQUIRE one OWNER another BLOCK 0 DETECT",
        r#"another waits for "one" held by mine on the connection of another"#,
    );
    let mut other = server.client();
    other.acquire("two", "OWNER its PX 600000 SESSION").unwrap();
    let mut waiter = Waiter::of(&server, other, "one", "OWNER later DETECT");
    is_told(
        &mut client,
        "LOCK.ACQUIRE two OWNER another BLOCK 0 DETECT",
        "another waits for \"two\" held by its on the connection of later, \
         later waits for \"one\" held by mine on the connection of another",
    );
    // An owner with a place is not blocked, and may still release the lock.
    let _listener = crate::support::Mailbox::of(&server, "box");
    let place = "LOCK.ACQUIRE two OWNER another BLOCK 0 NOTIFY box DETECT";
    assert_eq!(client.ask::<String>(place), "QUEUED");
    assert_eq!(client.ask::<i64>("LOCK.RELEASE one mine"), 0);
    assert_eq!(waiter.granted().owner, "later");
}

#[test]
fn a_circle_through_several_databases_is_told() {
    let (server, mut client) = Server::and_client();
    let mut other = server.client();
    other.ask::<()>("SELECT 3");
    hold(&mut client, "a");
    hold(&mut other, "b c");
    let _b = Waiter::new(&server, "as", "OWNER b");
    other.begin("LOCK.ACQUIRE bs OWNER c BLOCK 0");
    wait_for("two to wait", || client.info("lock", "lock_waiters") == "2");
    let mut third = server.client();
    third.ask::<()>("SELECT 3");
    is_told(
        &mut third,
        "LOCK.ACQUIRE cs OWNER a BLOCK 0 DETECT",
        r#"a waits for "cs" held by c, c waits for "bs" held by b, b waits for "as" in database 0 held by a"#,
    );
    assert_eq!(third.holder("cs").unwrap().owner, "c", "the database is still selected");
}

/// An error must be one line, so unusual bytes are escaped.
#[test]
fn a_circle_names_locks_and_owners_of_any_bytes() {
    let (server, mut client) = Server::and_client();
    let (key, long) = (&b"line\r\nbreak \"\xff"[..], vec![b'x'; 100]);
    client.ask_words::<Value, _>([&b"LOCK.ACQUIRE"[..], key, b"OWNER", b"a"]);
    client.ask_words::<Value, _>([&b"LOCK.ACQUIRE"[..], &long, b"OWNER", b"b \n"]);
    let words = [&b"LOCK.ACQUIRE"[..], key, b"OWNER", b"b \n", b"BLOCK", b"0"];
    let _b = Waiter::of_words(&server, server.client(), words);
    let line = [&b"LOCK.ACQUIRE"[..], &long, b"OWNER", b"a", b"BLOCK", b"0", b"DETECT"];
    let told = client.send_words(line).unwrap_err();
    let long = "x".repeat(64);
    let circle =
        format!(r#"a waits for "{long}..." held by b \n, b \n waits for "line\r\nbreak \"\xff" held by a"#);
    assert_eq!(told, format!("{WOULD}{circle}"));
}
