//! Several holders and what is done in one step: `MULTI`, `WATCH`, scripts.

use redis::Value;

use super::readers;
use crate::support::{Client, Server};

/// Whether a transaction that was begun by `WATCH k` before those lines is still carried out.
#[track_caller]
fn goes_on_after(client: &mut Client, other: &mut Client, lines: &[&str]) -> bool {
    client.ask::<()>("WATCH k");
    for line in lines {
        let _ = other.send(line);
    }
    client.ask::<()>("MULTI");
    client.ask::<()>("PING");
    client.ask::<Value>("EXEC") != Value::Nil
}

#[test]
fn a_watch_is_broken_by_what_changes_any_grant() {
    let (_server, [mut client, mut other]) = Server::and_clients();
    for line in [
        "LOCK.ACQUIRE k OWNER c SHARED",
        "LOCK.ACQUIRE k OWNER a SHARED",
        "LOCK.ACQUIRE k OWNER a LIMIT 2 ONCE",
        "LOCK.EXTEND k b PX 700000",
        "LOCK.EXTEND k a PX 1000",
        "LOCK.RELEASE k b",
        "LOCK.BREAK k FENCE #",
        "LOCK.BREAK k",
    ] {
        let [a, _] = readers(&mut other, ["a", "b"]);
        assert!(
            !goes_on_after(&mut client, &mut other, &[&line.replace('#', &a.fence.to_string())]),
            "{line}"
        );
        other.ask::<()>("FLUSHALL");
    }
}

#[test]
fn a_watch_is_not_broken_by_what_changes_nothing() {
    let (_server, [mut client, mut other]) = Server::and_clients();
    readers(&mut other, ["a", "b"]);
    for line in [
        "LOCK.ACQUIRE k OWNER c",
        "LOCK.ACQUIRE k OWNER a",
        "LOCK.ACQUIRE k OWNER a ONCE SHARED PX 1",
        "LOCK.RELEASE k c",
        "LOCK.RELEASE k a FENCE 5",
        "LOCK.EXTEND k c",
        "LOCK.BREAK k FENCE 5",
        "LOCK.INFO k FULL",
        "LOCK.LEAVE k a",
        "LOCK.ACQUIRE k SHARED LIMIT 3",
    ] {
        assert!(goes_on_after(&mut client, &mut other, &[line]), "{line}");
    }
}
