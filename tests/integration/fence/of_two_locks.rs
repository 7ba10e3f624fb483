//! Two locks with one fence, as `DUMP` and `RESTORE` make them: what becomes of the waiters of one is no matter of the other.

use redis::Value;

use crate::support::{Client, Server, Waiter, server_time, soon, transaction, wait_until};

/// Hands `x` over to its first waiter, and makes `y` a copy of it in the same step.
const HAND_OVER_AND_COPY: &str = "EVAL redis.call('LOCK.RELEASE','x','alice')\
    redis.call('RESTORE','y',600000,redis.call('DUMP','x'),'REPLACE')return(1) 0";

/// Alice's lock `x`, which bob waits for.
fn scene(options: &str) -> (Server, Client, Waiter) {
    let (server, mut client) = Server::and_client();
    client.acquire("x", "OWNER alice PX 600000").unwrap();
    let bob = Waiter::new(&server, "x", &format!("OWNER bob {options}"));
    (server, client, bob)
}

/// Hands over and copies, then does that, all in one transaction; the replies to the rest.
#[track_caller]
fn step(client: &mut Client, lines: &[&str]) -> Vec<Result<Value, String>> {
    let lines: Vec<&str> = [HAND_OVER_AND_COPY].iter().chain(lines).copied().collect();
    let mut replies = transaction(client, &lines);
    assert_eq!(replies.remove(0), Ok(Value::Int(1)));
    replies
}

#[test]
fn the_grant_of_a_waiter_that_died_is_taken_back_though_the_other_lock_was_asked_for() {
    let (_server, mut client, bob) = scene("PX 600000");
    let kill = format!("CLIENT KILL ID {}", bob.id);
    step(&mut client, &["LOCK.ACQUIRE y OWNER bob ONCE", &kill]);
    let y = client.holder("y").unwrap();
    soon("x to be free, whose waiter was never told", || client.holder("x").is_none());
    assert_eq!(client.holder("y").map(|holder| (holder.fence, holder.holds)), Some((y.fence, 1)));
}

#[test]
fn a_waiters_session_is_not_taken_over_by_one_of_the_other_lock() {
    let (_server, mut client, mut bob) = scene("PX 900 SESSION");
    step(&mut client, &["LOCK.ACQUIRE y OWNER bob ONCE SESSION"]);
    let told = bob.granted();
    for key in ["x", "y"] {
        assert_eq!(client.lock_info(key).unwrap()["session"], "1", "{key}");
    }
    let later = server_time(&mut client) + 1800;
    wait_until(&mut client, later);
    assert_eq!(client.holder("x").map(|holder| holder.fence), Some(told.fence));
    drop(bob);
    soon("x to be free", || client.holder("x").is_none());
    assert_eq!(client.lock_info("y").unwrap()["session"], "1");
}
