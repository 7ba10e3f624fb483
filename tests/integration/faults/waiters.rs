//! Panics in callbacks for blocked clients: the reply, a closed connection, the end of the wait.

use super::{INTERNAL, arm, goes_on, server, struck};
use crate::support::{
    Client, Server, Setup, Waiter, blocked_clients, grant, owners, transaction, wait_for, wait_until_gone,
};

/// Alice holds `k`; bob and carol wait.
#[track_caller]
fn queue() -> (Server, Client, Waiter, Waiter) {
    let (server, mut client) = server();
    client.acquire("k", "OWNER alice PX 600000").unwrap();
    let bob = Waiter::new(&server, "k", "OWNER bob PX 600000");
    let carol = Waiter::new(&server, "k", "OWNER carol PX 600000");
    (server, client, bob, carol)
}

/// Checks that carol has or gets the lock, and that nobody else is left.
#[track_caller]
fn carol_gets_it(server: &Server, client: &mut Client, carol: &mut Waiter) {
    let granted = grant(carol.client.finish().unwrap()).unwrap();
    assert_eq!((&granted.owner[..], granted.holds), ("carol", 1));
    assert_eq!(client.holder("k").unwrap().fence, granted.fence);
    assert_eq!(client.ask::<i64>("LOCK.RELEASE k carol"), 0);
    assert_eq!(client.holder("k"), None);
    wait_for("nobody to be blocked", || blocked_clients(client) == 0);
    assert_eq!(client.info("lock", "lock_waiters"), "0");
    goes_on(server);
}

/// A client that can't be told of its grant must not keep it.
#[test]
fn a_reply_is_an_error_and_the_grant_goes_to_the_next() {
    let (server, mut client, mut bob, mut carol) = queue();
    arm(&mut client, "reply");
    client.ask::<i64>("LOCK.RELEASE k alice");
    assert_eq!(bob.client.finish(), Err(INTERNAL.into()));
    assert_eq!(bob.client.ask::<String>("PING"), "PONG");
    struck(&server, &mut client, "reply");
    carol_gets_it(&server, &mut client, &mut carol);
}

#[test]
fn a_reply_to_the_only_waiter_leaves_the_lock_free() {
    let (server, mut client) = server();
    client.acquire("k", "OWNER alice PX 600000").unwrap();
    let mut bob = Waiter::new(&server, "k", "OWNER bob PX 600000 SESSION");
    arm(&mut client, "reply");
    client.ask::<i64>("LOCK.RELEASE k alice");
    assert_eq!(bob.client.finish(), Err(INTERNAL.into()));
    struck(&server, &mut client, "reply");
    wait_for("a free lock", || client.holder("k").is_none());
    goes_on(&server);
}

#[test]
fn a_waiter_told_in_a_turn_whose_end_was_missed_keeps_the_lock() {
    let (server, mut client, mut bob, mut carol) = queue();
    transaction(&mut client, &["LOCK.FAULT loop-event", "LOCK.RELEASE k alice"]);
    assert_eq!(bob.granted().owner, "bob");
    struck(&server, &mut client, "loop-event");
    let id: i64 = bob.client.ask("CLIENT ID");
    drop(bob);
    wait_until_gone(&mut client, id);
    assert_eq!(client.ask::<i64>("LOCK.RELEASE k bob"), 0);
    carol_gets_it(&server, &mut client, &mut carol);
}

#[test]
fn a_waiter_that_closes_leaves_the_queue_all_the_same() {
    let (server, mut client, bob, mut carol) = queue();
    arm(&mut client, "disconnect");
    drop(bob);
    struck(&server, &mut client, "disconnect");
    wait_for("bob to be gone", || owners(&mut client, "k") == ["carol"]);
    client.ask::<i64>("LOCK.RELEASE k alice");
    carol_gets_it(&server, &mut client, &mut carol);
}

#[test]
fn a_waiter_killed_in_the_step_in_which_it_got_the_lock_does_not_keep_it() {
    for callback in ["disconnect", "unblock", "free-client"] {
        let (server, mut client, bob, mut carol) = queue();
        arm(&mut client, callback);
        let kill = format!("CLIENT KILL ID {}", bob.id);
        transaction(&mut client, &["LOCK.RELEASE k alice", &kill]);
        struck(&server, &mut client, callback);
        carol_gets_it(&server, &mut client, &mut carol);
    }
}

#[test]
fn the_end_of_a_waiter_that_was_answered() {
    for callback in ["unblock", "free-client"] {
        let (server, mut client, mut bob, mut carol) = queue();
        arm(&mut client, callback);
        client.ask::<i64>("LOCK.RELEASE k alice");
        assert_eq!(grant(bob.client.finish().unwrap()).unwrap().owner, "bob");
        struck(&server, &mut client, callback);
        assert_eq!(client.ask::<i64>("LOCK.RELEASE k bob"), 0);
        carol_gets_it(&server, &mut client, &mut carol);
    }
}

/// The server calls the module for each client that is blocked on a written key. A client that writes a key whose name extends that of a
/// lock must not reach the waiters, even if it knows the source.
#[test]
fn no_client_writes_the_key_that_waiters_are_blocked_on() {
    let (_server, mut client, _bob, _carol) = queue();
    arm(&mut client, "key-ready");
    for name in [&b"k\0lock-waiters"[..], b"{k}\0lock-waiters", b"k\0", b"k", b"{k}"] {
        for words in [&[b"RPUSH", name, b"x"][..], &[b"DEL", name], &[b"LOCK.ACQUIRE", name], &[b"DEL", name]]
        {
            if name != b"k" {
                client.ask_words::<redis::Value, _>(words);
            }
        }
    }
    assert_eq!(client.ask::<String>("LOCK.FAULT"), "key-ready", "it was not called");
    assert_eq!(blocked_clients(&mut client), 2);
}

/// In this cluster slot, no other key could be used to signal the waiters, so they are blocked on the lock's own key.
#[test]
fn a_key_that_its_own_waiters_are_blocked_on() {
    let (server, mut client) = Setup::new().with_faults().set("cluster-enabled", "yes").start_and_client();
    client.ask::<()>("CLUSTER ADDSLOTSRANGE 0 16383");
    wait_for("all slots to be served", || client.send("LOCK.INFO a}b").is_ok());
    client.acquire("a}b", "OWNER alice PX 600000").unwrap();
    let mut bob = Waiter::new(&server, "a}b", "OWNER bob PX 600000");
    let _carol = Waiter::new(&server, "a}b", "OWNER carol PX 600000");
    arm(&mut client, "key-ready");
    client.ask::<()>("DEL a}b");
    assert_eq!(bob.granted().owner, "bob");
    struck(&server, &mut client, "key-ready");
    goes_on(&server);
}
