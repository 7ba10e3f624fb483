//! Names from clients in the server's log are escaped, and are never used as a format.

use crate::support::{Server, Setup, wait_for};

const NASTY: &[u8] = b"%s%n%x%.9999d\r\n9:M * Forged line\n\0\x1b[2J\xff\"\\";

const SHOWN: &str = r#"%s%n%x%.9999d\r\n9:M * Forged line\n\x00\x1b[2J\xff\"\\"#;

#[track_caller]
fn lines(server: &Server, what: &str) -> Vec<String> {
    wait_for(what, || server.log().contains(what));
    let log = server.log();
    assert!(!log.lines().any(|line| line.starts_with("9:M")), "a forged line: {log}");
    assert!(!log.bytes().any(|byte| byte == 0 || byte == 0x1b), "a control character: {log}");
    log.lines().filter(|line| line.contains(what)).map(str::to_owned).collect()
}

/// The user's name may contain any bytes, too.
#[test]
fn the_log_escapes_the_names_of_a_broken_lock() {
    let (server, mut client) = Server::and_client();
    client.ask_words::<(), _>(["ACL", "SETUSER", "%s%n\u{fc}", "on", "nopass", "+@all", "~*"]);
    client.ask_words::<redis::Value, _>([b"LOCK.ACQUIRE", NASTY, b"OWNER", NASTY]);
    client.ask_words::<(), _>(["AUTH", "%s%n\u{fc}", "any"]);
    assert_eq!(client.ask_words::<i64, _>([b"LOCK.BREAK", NASTY]), 1);
    let lines = lines(&server, "lock broken");
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].contains(&format!("owner \"{SHOWN}\"")), "{}", lines[0]);
    assert!(lines[0].ends_with(&format!(r#"user=%s%n\xc3\xbc, key "{SHOWN}""#)), "{}", lines[0]);
}

#[test]
fn the_log_escapes_the_names_of_a_lapse() {
    let (server, mut client) = Setup::new().set("loglevel", "verbose").start_and_client();
    client.ask_words::<redis::Value, _>([b"LOCK.ACQUIRE", NASTY, b"OWNER", NASTY, b"PX", b"1"]);
    wait_for("a lapse", || client.send_words([b"LOCK.INFO", NASTY]) == Ok(redis::Value::Nil));
    // A write command looks at the key, so that it is certainly deleted.
    client.ask_words::<i64, _>([b"LOCK.BREAK", NASTY]);
    let lines = lines(&server, "lock lapsed");
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].contains(&format!("owner \"{SHOWN}\"")), "{}", lines[0]);
    assert!(lines[0].ends_with(&format!("key \"{SHOWN}\"")), "{}", lines[0]);
}

/// A key is longer than a line of the log: it is cut off, and nothing beyond its end is read.
#[test]
fn the_log_cuts_a_long_key() {
    let (server, mut client) = Server::and_client();
    let key = [b"%s%n".repeat(50_000), b"end".to_vec()].concat();
    client.ask_words::<redis::Value, _>([b"LOCK.ACQUIRE", &key[..], b"OWNER", b"alice"]);
    assert_eq!(client.ask_words::<i64, _>([b"LOCK.BREAK", &key[..]]), 1);
    let lines = lines(&server, "lock broken");
    assert!(lines[0].contains("owner \"alice\", fence "), "{}", lines[0]);
    assert!(lines[0].contains("key \"%s%n%s%n") && lines[0].len() < 2_000, "{}", lines[0].len());
}
