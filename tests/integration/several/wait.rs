//! `BLOCK`: all locks are granted when the last one is free.

use redis::Value;

use super::{counted, grants, holds_one};
use crate::support::Server;

#[test]
fn a_wait_for_several_locks_is_answered_alike_in_resp3() {
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
