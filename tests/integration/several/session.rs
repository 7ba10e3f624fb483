//! `SESSION`: all of them live as long as the connection.

use super::{count, free, holders, holds, holds_one, waits_for_one, waits_on};
use crate::support::{Server, held, server_time, soon, wait_until};

#[test]
fn all_end_with_the_connection() {
    let (server, [mut client, mut session]) = Server::and_clients();
    holds(&mut session, "a b c", "alice", "SESSION");
    assert_eq!(count(&mut client, "lock_sessions"), 3);
    free(&mut client, "b", "alice");
    assert_eq!(count(&mut client, "lock_sessions"), 2);
    let mut waiter = waits_for_one(&server, "c", "bob");
    drop(session);
    waiter.granted();
    soon("the end of all", || holders(&mut client, ["a", "b", "c"]) == ["-", "-", "bob"]);
    assert_eq!((count(&mut client, "lock_sessions"), count(&mut client, "lock_sessions_ended")), (0, 2));
}

#[test]
fn the_leases_of_all_are_renewed() {
    let (_server, [mut client, mut session]) = Server::and_clients();
    let all = holds(&mut session, "a b", "alice", "SESSION PX 600");
    let end = server_time(&mut client) + 2000;
    wait_until(&mut client, end);
    for key in ["a", "b"] {
        let grant = held(&mut client, key);
        assert!(grant.fence == all.fences[0] && (1..=600).contains(&grant.lease), "{grant:?}");
    }
}

/// One that is the owner's already gets a session as well, or keeps the one that it has.
#[test]
fn a_re_entry_takes_a_session_over() {
    let (_server, [mut client, mut first, mut second]) = Server::and_clients();
    first.acquire("a", "OWNER alice SESSION PX 600000").unwrap();
    holds(&mut second, "a b", "alice", "SESSION ONCE");
    drop(first);
    let id: i64 = second.ask("CLIENT ID");
    assert_eq!(holders(&mut client, ["a", "b"]), ["alice"; 2]);
    client.ask::<()>(&format!("CLIENT KILL ID {id}"));
    soon("the end of both", || holders(&mut client, ["a", "b"]) == ["-", "-"]);
}

/// The waiter's connection holds another session on what it waits for.
#[test]
fn a_waiter_that_closes_ends_what_it_held_and_its_wait() {
    let (server, mut client) = Server::and_client();
    let mut bob = server.client();
    holds(&mut bob, "mine other", "bob", "SESSION");
    holds_one(&mut client, "a", "alice");
    let waiter = waits_on(&server, bob, "mine a free", "bob", "");
    let mut behind = ["mine", "free"].map(|key| waits_for_one(&server, key, "carol"));
    drop(waiter);
    for waiter in &mut behind {
        waiter.granted();
    }
    soon("the end of its other", || holders(&mut client, ["other", "a"]) == ["-", "alice"]);
    assert_eq!((count(&mut client, "lock_waiters"), count(&mut client, "lock_sessions")), (0, 0));
}
