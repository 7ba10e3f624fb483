//! `LOCK.MRELEASE`: of each what `LOCK.RELEASE` does; null where it is not held.

use super::{WRONG_TYPE, ask, count, holders, holds, holds_one, is_refused, release};
use crate::support::{Client, HELD_BY_ANOTHER, Server};

/// Nothing is changed by that, and each is answered with null.
#[track_caller]
fn releases_nothing(client: &mut Client, line: &str, keys: usize) {
    let before = client.snapshot();
    assert_eq!(client.ask::<Vec<Option<i64>>>(line), vec![None; keys], "{line}");
    assert_eq!(client.snapshot(), before, "{line}");
}

#[test]
fn one_hold_of_each_in_the_order_of_the_keys() {
    let (_server, mut client) = Server::and_client();
    for _ in 0..3 {
        holds_one(&mut client, "c", "alice");
    }
    holds_one(&mut client, "a", "alice");
    holds_one(&mut client, "b", "bob");
    assert_eq!(release(&mut client, "c free b a", "alice"), [Some(2), None, None, Some(0)]);
    assert_eq!(holders(&mut client, ["a", "b", "c"]), ["-", "bob", "alice"]);
    assert_eq!(release(&mut client, "a b c", "alice"), [None, None, Some(1)]);
}

#[test]
fn all_holds_of_each() {
    let (_server, mut client) = Server::and_client();
    for keys in ["a b c", "c", "b c"] {
        holds(&mut client, keys, "alice", "");
    }
    let left: Vec<Option<i64>> = client.ask("LOCK.MRELEASE 4 a c free b alice ALL");
    assert_eq!(left, [Some(0), Some(0), None, Some(0)]);
    assert_eq!(client.ask::<i64>("DBSIZE"), 0);
    assert_eq!(count(&mut client, "lock_releases"), 3);
}

/// As all new grants have one fence, it says which of them are meant.
#[test]
fn those_with_that_fence_alone() {
    let (_server, mut client) = Server::and_client();
    holds_one(&mut client, "old", "alice");
    let all = holds(&mut client, "a b", "alice", "");
    let line = format!("LOCK.MRELEASE 3 old a b alice FENCE {}", all.fences[0]);
    assert_eq!(client.ask::<Vec<Option<i64>>>(&line), [None, Some(0), Some(0)]);
    assert_eq!(holders(&mut client, ["old", "a", "b"]), ["alice", "-", "-"]);
    // A retry of it does nothing to what has been granted since.
    holds(&mut client, "a b", "alice", "");
    releases_nothing(&mut client, &line, 3);
    releases_nothing(&mut client, &format!("{line} all"), 3);
}

#[test]
fn one_of_another_type_refuses_all() {
    let (_server, mut client) = Server::and_client();
    holds(&mut client, "a b", "alice", "");
    client.ask::<()>("SET text any");
    for keys in ["text a b", "a text b", "a b text"] {
        is_refused(&mut client, &format!("LOCK.MRELEASE 3 {keys} alice"), WRONG_TYPE);
        is_refused(&mut client, &format!("LOCK.MEXTEND 3 {keys} alice"), WRONG_TYPE);
        is_refused(&mut client, &ask(keys, "alice", ""), WRONG_TYPE);
        is_refused(&mut client, &ask(keys, "alice", "BLOCK 0"), WRONG_TYPE);
    }
    assert_eq!(client.refused("LOCK.RELEASE a bob"), HELD_BY_ANOTHER);
}
