//! `BLOCK`: granted all of them when the last is free.

use redis::Value;

use super::{count, counted, grants, holds, holds_one, waits};
use crate::support::{Server, blocked_clients};

#[test]
fn it_stands_in_the_queue_of_each_and_counts_once() {
    let (server, mut client) = Server::and_client();
    holds(&mut client, "a b", "alice", "");
    let waiter = waits(&server, "a b c", "bob", "BLOCK 70000");
    for key in ["a", "b"] {
        let shown = &crate::support::queue(&mut client, key)[0];
        assert_eq!((&shown.owner[..], shown.id, shown.timeout), ("bob", waiter.id, 70_000), "{key}");
        assert_eq!(client.lock_info(key).unwrap()["waiters"], "1");
    }
    assert_eq!((count(&mut client, "lock_waiters"), blocked_clients(&mut client)), (1, 1));
}

#[test]
fn resp3_is_answered_alike() {
    let (server, mut client) = Server::and_client();
    for line in ["LOCK.RELEASE a alice", "CLIENT UNBLOCK # TIMEOUT"] {
        holds_one(&mut client, "a", "alice");
        let mut waiter = super::waits_on(&server, server.client_resp3(), "a b", "bob", "");
        client.ask::<i64>(&line.replace('#', &waiter.id.to_string()));
        match waiter.reply().unwrap() {
            Value::Nil => assert!(line.starts_with("CLIENT")),
            reply => assert_eq!(grants(reply).unwrap().holds, [1, 1]),
        }
        client.ask::<()>("FLUSHALL");
    }
    assert_eq!(counted("a"), "1 a");
}
