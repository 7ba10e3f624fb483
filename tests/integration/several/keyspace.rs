//! What other commands do to one of the keys while somebody waits for several.

use redis::Value;

use super::{WRONG_TYPE, count, holders, holds, holds_one, release, waits, waits_for_one};
use crate::support::Server;

/// As single waiters are told; what was reserved goes to those behind.
#[test]
fn another_type_over_one_key_ends_the_wait() {
    let (server, mut client) = Server::and_client();
    for line in ["SET b text", "RENAME other b", "COPY other b REPLACE", "RESTORE"] {
        client.ask::<()>("RPUSH other element");
        holds_one(&mut client, "a", "alice");
        holds_one(&mut client, "b", "alice");
        let mut all = waits(&server, "a free b y", "bob", "");
        let mut behind = waits_for_one(&server, "y", "carol");
        if line == "RESTORE" {
            let dump: Vec<u8> = client.ask("DUMP other");
            client.ask_words::<(), _>([b"RESTORE", &b"b"[..], b"0", &dump, b"REPLACE"]);
        } else {
            client.ask::<Value>(line);
        }
        assert_eq!(all.refused(), WRONG_TYPE, "{line}");
        behind.granted();
        assert_eq!(holders(&mut client, ["a", "y"]), ["alice", "carol"], "{line}");
        assert_eq!(count(&mut client, "lock_waiters"), 0, "{line}");
        client.ask::<()>("FLUSHALL");
    }
}

/// As with a lock that is free in a grace, nobody is told when a free name is given to something else: it is found when the
/// others get free.
#[test]
fn another_type_under_a_reserved_name_is_found_in_the_end() {
    let (server, mut client) = Server::and_client();
    holds(&mut client, "a b", "alice", "");
    let mut all = waits(&server, "a free b", "bob", "");
    let mut behind = waits_for_one(&server, "a", "carol");
    client.ask::<()>("SET free text");
    assert_eq!(client.refused("LOCK.ACQUIRE free"), WRONG_TYPE);
    release(&mut client, "b a", "alice");
    assert_eq!(all.refused(), WRONG_TYPE);
    behind.granted();
    assert_eq!(holders(&mut client, ["a", "b"]), ["carol", "-"]);
}
