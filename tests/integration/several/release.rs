//! `LOCK.MRELEASE`: of each what `LOCK.RELEASE` does; null where it is not held.

use redis::Value;

use super::{
    NOT_HELD, WRONG_TYPE, ask, count, holders, holds, holds_one, is_refused, release, waits_for_one,
};
use crate::support::{Client, Server};

/// Nothing is changed by that, and each is answered with null.
#[track_caller]
fn releases_nothing(client: &mut Client, line: &str, keys: usize) {
    let before = client.snapshot();
    assert_eq!(client.ask::<Vec<Option<i64>>>(line), vec![None; keys], "{line}");
    assert_eq!(client.snapshot(), before, "{line}");
}

#[test]
fn one_hold_of_each_in_the_order_of_the_keys() {
    let server = Server::start();
    let mut client = server.client();
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
fn null_is_null_in_each_protocol() {
    let server = Server::start();
    for mut client in [server.client(), server.client_resp3()] {
        holds_one(&mut client, "a", "alice");
        let reply: Value = client.ask("LOCK.MRELEASE 2 free a alice");
        assert_eq!(reply, Value::Array(vec![Value::Nil, Value::Int(0)]));
    }
}

#[test]
fn all_holds_of_each() {
    let server = Server::start();
    let mut client = server.client();
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
    let server = Server::start();
    let mut client = server.client();
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
fn what_is_not_held_is_null_and_nothing_changes() {
    let server = Server::start();
    let mut client = server.client();
    holds(&mut client, "a b", "alice", "");
    for line in
        ["LOCK.MRELEASE 3 a b free bob", "LOCK.MRELEASE 2 a b bob ALL", "LOCK.MRELEASE 2 a b alice FENCE 1"]
    {
        releases_nothing(&mut client, line, line[14..15].parse().unwrap());
    }
}

#[test]
fn each_goes_to_its_own_next_one() {
    let server = Server::start();
    let mut client = server.client();
    let all = holds(&mut client, "a b c", "alice", "");
    let mut waiters = ["a", "b"].map(|key| waits_for_one(&server, key, "bob"));
    assert_eq!(release(&mut client, "b c a", "alice"), [Some(0); 3]);
    let fences = waiters.each_mut().map(|waiter| waiter.granted().fence);
    assert!(fences.iter().all(|fence| *fence > all.fences[0]));
    assert_ne!(fences[0], fences[1], "two grants");
    assert_eq!(holders(&mut client, ["a", "b", "c"]), ["bob", "bob", "-"]);
}

#[test]
fn one_of_another_type_refuses_all() {
    let server = Server::start();
    let mut client = server.client();
    holds(&mut client, "a b", "alice", "");
    client.ask::<()>("SET text any");
    for keys in ["text a b", "a text b", "a b text"] {
        is_refused(&mut client, &format!("LOCK.MRELEASE 3 {keys} alice"), WRONG_TYPE);
        is_refused(&mut client, &format!("LOCK.MEXTEND 3 {keys} alice"), WRONG_TYPE);
        is_refused(&mut client, &ask(keys, "alice", ""), WRONG_TYPE);
        is_refused(&mut client, &ask(keys, "alice", "BLOCK 0"), WRONG_TYPE);
    }
    assert_eq!(client.refused("LOCK.RELEASE a bob"), NOT_HELD);
}
