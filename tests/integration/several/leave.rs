//! A waiter that goes away leaves all queues at once: what was reserved is free for those behind.

use redis::Value;

use super::{holders, holds, waits, waits_for_one};
use crate::support::Server;

/// Ways to end a wait, by the number of the connection.
const WAYS: [&str; 4] =
    ["CLIENT UNBLOCK # TIMEOUT", "CLIENT UNBLOCK # ERROR", "CLIENT KILL ID #", "close the connection"];

/// In the step in which it gets them, it goes away: all go on.
#[test]
fn who_goes_in_the_step_of_the_grant_gets_none() {
    let (server, mut client) = Server::and_client();
    for way in &WAYS[..3] {
        holds(&mut client, "a b", "alice", "");
        let all = waits(&server, "a b", "bob", "");
        let mut behind = ["a", "b"].map(|key| waits_for_one(&server, key, "carol"));
        client.ask::<()>("MULTI");
        client.ask::<()>("LOCK.MRELEASE 2 a b alice");
        client.ask::<()>(&way.replace('#', &all.id.to_string()));
        client.ask::<Value>("EXEC");
        for waiter in &mut behind {
            waiter.granted();
        }
        assert_eq!(holders(&mut client, ["a", "b"]), ["carol"; 2], "{way}");
        client.ask::<()>("FLUSHALL");
    }
}
