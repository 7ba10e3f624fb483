//! Another module deletes a lock in the lock's own event: the server survives, and the queue moves on.

use super::setup;
use crate::support::{Client, Waiter, blocked_clients, soon, wait_for};

/// Checks that all waiters for `k` get it, one after the other, and that it is free afterwards.
#[track_caller]
fn moves_on(client: &mut Client, waiters: Vec<Waiter>, what: &str) {
    let mut last = 0;
    for mut waiter in waiters {
        let granted = waiter.granted();
        assert!(granted.fence >= last, "{what}: {granted:?}");
        last = granted.fence;
        // The other module may have deleted this grant, so the lock may already be the next owner's.
        let _ = client.send(&format!("LOCK.RELEASE k {}", granted.owner));
    }
    soon("a free lock", || client.holder("k").is_none());
    assert_eq!(blocked_clients(client), 0, "{what}");
    assert_eq!(client.info("lock", "lock_waiters"), "0", "{what}");
    assert_eq!(client.info("lock", "lock_keys"), "0", "{what}");
}

/// Alice's grant of `k` ends in this way, and the other module deletes the lock in the event.
#[track_caller]
fn deleted_in(event: &str, end: &str) {
    let what = format!("{end}, deleted in {event}");
    let (server, mut client) = setup().start_and_client();
    client.acquire("k", "OWNER alice PX 600000").unwrap();
    // Two waiters have the same owner: the second one re-enters in the step that hands over to the first.
    let waiters = ["bob", "bob", "carol", "a-name-that-is-longer-than-any-other-here"]
        .map(|owner| Waiter::new(&server, "k", &format!("OWNER {owner} PX 600000")));
    client.ask::<()>(&format!("MEDDLE {event}"));
    client.ask::<i64>(end);
    wait_for("the handover", || client.holder("k").is_some_and(|holder| holder.owner != "alice"));
    assert_eq!(client.ask::<i64>("MEDDLED"), 1, "{what}");
    // New values may get the memory of the deleted lock, which must not matter.
    client.ask_all::<redis::Value, _>(&["SET a x", "SET b y", "LOCK.ACQUIRE c OWNER dave PX 600000"]);
    assert_eq!(client.holder("c").unwrap().owner, "dave", "{what}");
    client.ask::<()>("LOCK.BREAK c");
    moves_on(&mut client, waiters.into(), &what);
}

#[test]
fn a_lock_deleted_in_the_event_of_its_end_or_of_its_next_grant() {
    deleted_in("lock.released", "LOCK.RELEASE k alice");
    deleted_in("lock.broken", "LOCK.BREAK k");
    deleted_in("lock.lapsed", "PEXPIRE k 20");
    for end in ["LOCK.RELEASE k alice", "LOCK.BREAK k", "PEXPIRE k 20"] {
        deleted_in("lock.acquired", end);
    }
}

#[test]
fn a_lock_deleted_in_an_event_that_nobody_waits_for() {
    for (event, line) in [
        ("lock.acquired", "LOCK.ACQUIRE k OWNER alice PX 900 SESSION"),
        ("lock.extended", "LOCK.EXTEND k alice PX 800"),
        ("lock.released", "LOCK.RELEASE k alice"),
        ("lock.broken", "LOCK.BREAK k"),
    ] {
        let (_server, mut client) = setup().start_and_client();
        if event != "lock.acquired" {
            client.acquire("k", "OWNER alice PX 900 SESSION").unwrap();
        }
        client.ask::<()>(&format!("MEDDLE {event}"));
        client.ask::<redis::Value>(line);
        assert_eq!(client.ask::<i64>("MEDDLED"), 1, "{event}");
        assert_eq!(client.holder("k"), None, "{event}");
        // The session ends at its next renewal at the latest.
        wait_for("the end of the session", || client.info("lock", "lock_sessions") == "0");
        assert_eq!(client.acquire("k", "OWNER bob").unwrap().holds, 1, "{event}");
    }
}
