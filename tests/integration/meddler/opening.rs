//! A command opens an expired key: the server deletes the key and reports it. In this event, another module runs any command on this key or
//! the others.

use redis::Value;

use super::{DISTURBED, NESTED, expired, meddle, owner, server};

const BOTH: &str = "LOCK.MACQUIRE 2 held lapsed OWNER bob PX 600000";

/// Alice holds an open lock. While an expired lock is opened, `line` runs. Checks under which name she holds the lock afterwards.
#[track_caller]
fn while_held(line: &str, alice_is_in: Option<&str>) {
    let (_server, mut client) = server();
    client.acquire("held", "OWNER alice PX 600000").unwrap();
    expired(&mut client, "LOCK.ACQUIRE lapsed OWNER carol PX 1");
    meddle(&mut client, "expired", line);
    let reply: Value = client.ask(BOTH);
    assert_eq!(client.ask::<i64>("MEDDLED"), 1, "{line}");
    let granted = matches!(reply, Value::Array(_));
    assert_eq!(granted, !matches!(alice_is_in, Some("held" | "lapsed")), "{line}: {reply:?}");
    if let Some(key) = alice_is_in {
        assert_eq!(owner(&mut client, key).as_deref(), Some("alice"), "{line}");
    }
    for key in ["held", "lapsed"].into_iter().filter(|_| granted) {
        assert_eq!(owner(&mut client, key).as_deref(), Some("bob"), "{line}: {key}");
    }
    // New values may get the memory of the old lock, which must not matter.
    client.ask_all::<Value, _>(&["SET a x", "SET b y", "LOCK.ACQUIRE c OWNER dave PX 600000"]);
    assert_eq!(owner(&mut client, "c").as_deref(), Some("dave"), "{line}");
}

#[test]
fn an_open_lock_that_is_let_be_goes_or_moves() {
    for line in ["GET none", "LOCK.INFO held", "DEL other"] {
        while_held(line, Some("held"));
    }
    for line in ["DEL held", "UNLINK held", "PEXPIRE held -1", "FLUSHDB", "FLUSHALL ASYNC"] {
        while_held(line, None);
    }
    while_held("RENAME held other", Some("other"));
    while_held("RENAME held lapsed", Some("lapsed"));
}

#[test]
fn an_open_lock_whose_database_is_swapped() {
    let (_server, mut client) = server();
    client.acquire("held", "OWNER alice PX 600000").unwrap();
    expired(&mut client, "LOCK.ACQUIRE lapsed OWNER carol PX 1");
    meddle(&mut client, "expired", "SWAPDB 0 1");
    assert!(matches!(client.ask(BOTH), Value::Array(_)));
    assert_eq!(owner(&mut client, "held").as_deref(), Some("bob"));
    client.ask::<()>("SELECT 1");
    assert_eq!(owner(&mut client, "held").as_deref(), Some("alice"));
}

/// A name was free when it was opened. Then another lock or value gets this name.
#[test]
fn an_open_name_that_is_taken() {
    for line in ["RENAME other free", "SET free text", "SET lapsed text"] {
        let (_server, mut client) = server();
        client.acquire("other", "OWNER alice PX 600000").unwrap();
        expired(&mut client, "LOCK.ACQUIRE lapsed OWNER carol PX 1");
        meddle(&mut client, "expired", line);
        let reply = client.send("LOCK.MACQUIRE 2 free lapsed OWNER bob PX 600000");
        if line.starts_with("SET") {
            assert!(reply.clone().is_err_and(|text| text.starts_with("WRONGTYPE")), "{line}: {reply:?}");
        } else {
            assert_eq!(reply, Ok(Value::Nil), "{line}");
            assert_eq!(owner(&mut client, "free").as_deref(), Some("alice"));
        }
        assert_eq!(client.info("lock", "lock_keys"), "1", "{line}");
    }
}

/// The key to be locked has expired. When the server reports this, the other module must not be able to take the lock.
#[test]
fn nobody_acquires_in_between() {
    for (expires, command) in [
        ("LOCK.ACQUIRE k OWNER carol PX 1", "LOCK.ACQUIRE k OWNER bob PX 600000"),
        ("SET k text PX 1", "LOCK.ACQUIRE k OWNER bob PX 600000"),
        ("SET k text PX 1", "LOCK.MACQUIRE 2 k free OWNER bob PX 600000"),
        ("SET k text PX 1", "LOCK.MACQUIRE 2 free k OWNER bob PX 600000"),
    ] {
        for line in
            ["LOCK.ACQUIRE k OWNER eve", "LOCK.ACQUIRE free OWNER eve", "LOCK.MACQUIRE 2 free k OWNER eve"]
        {
            let (_server, mut client) = server();
            expired(&mut client, expires);
            meddle(&mut client, "expired", line);
            let reply: Value = client.ask(command);
            assert!(matches!(reply, Value::Array(_)), "{line}: {reply:?}");
            assert_eq!(client.ask::<String>("MEDDLE.REPLY"), NESTED, "{line}");
            assert_eq!(owner(&mut client, "k").as_deref(), Some("bob"), "{line}");
            assert_eq!(
                owner(&mut client, "free").as_deref(),
                Some("bob").filter(|_| command.contains("free"))
            );
        }
    }
}

/// In the event, every other command on locks is refused, too.
#[test]
fn nothing_changes_a_lock_in_between() {
    for line in [
        "LOCK.RELEASE held alice",
        "LOCK.EXTEND held alice PX 5",
        "LOCK.BREAK held",
        "LOCK.LEAVE held alice",
        "LOCK.MRELEASE 1 held alice",
        "LOCK.MEXTEND 1 held alice PX 5",
    ] {
        let (_server, mut client) = server();
        client.acquire("held", "OWNER alice PX 600000").unwrap();
        expired(&mut client, "LOCK.ACQUIRE lapsed OWNER carol PX 1");
        meddle(&mut client, "expired", line);
        assert_eq!(client.ask::<Value>(BOTH), Value::Nil, "{line}");
        assert_eq!(client.ask::<String>("MEDDLE.REPLY"), NESTED, "{line}");
        assert_eq!(owner(&mut client, "held").as_deref(), Some("alice"), "{line}");
    }
}

/// If a key expires each time it is opened, the command is refused in the end, and has changed nothing.
#[test]
fn a_key_that_expires_whenever_it_is_opened_is_refused_in_the_end() {
    for command in ["LOCK.ACQUIRE lapsed OWNER bob", "LOCK.MACQUIRE 2 free lapsed OWNER bob"] {
        let (_server, mut client) = server();
        for key in ["lapsed", "e1", "e2", "e3"] {
            expired(&mut client, &format!("SET {key} text PX 1"));
        }
        for number in 1..=3 {
            // Since 7.2, keys do not expire inside events, so expired keys can be moved.
            let line = match client.version() < (7, 2) {
                true => "SET lapsed text PXAT 1",
                false => &format!("RENAME e{number} lapsed"),
            };
            meddle(&mut client, "expired", line);
        }
        assert_eq!(client.refused(command), DISTURBED);
        assert_eq!(client.ask::<i64>("MEDDLED"), 3);
        assert_eq!(client.info("lock", "lock_keys"), "0");
        assert!(matches!(client.ask(command), Value::Array(_)));
    }
}
