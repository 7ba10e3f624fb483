//! A place in several queues: kept, given up, and how many there may be.

use redis::Value;

use super::{ask, count, free, gets_null, grants, holders, holds, holds_one, release, waits, waits_for_one};
use crate::support::{Client, Mailbox, Server, Setup, heard, owners, queue, soon};

#[track_caller]
fn queue_up(client: &mut Client, keys: &str, owner: &str) {
    let reply: Value = client.ask(&ask(keys, owner, "ONCE BLOCK 600000 NOTIFY ch"));
    assert_eq!(reply, Value::SimpleString("QUEUED".into()), "{keys} {owner}");
}

fn start() -> (Server, Client, Mailbox) {
    let (server, mut client, mail) = heard("claim 600000");
    holds(&mut client, "a b", "alice", "");
    (server, client, mail)
}

#[test]
fn asking_again_in_another_order_keeps_it() {
    let (server, mut client, mut mail) = start();
    queue_up(&mut client, "a b", "bob");
    queue_up(&mut client, "b a", "carol");
    for keys in ["b a", "a b"] {
        queue_up(&mut client, keys, "bob");
        for key in ["a", "b"] {
            assert_eq!(owners(&mut client, key), ["bob", "carol"]);
        }
    }
    assert_eq!(count(&mut client, "lock_places"), 2);
    // By another connection, for another time: the place is that one's.
    let mut other = server.client();
    let id: i64 = other.ask("CLIENT ID");
    other.ask::<Value>(&ask("b a", "bob", "ONCE BLOCK 70000 NOTIFY ch"));
    for key in ["a", "b"] {
        let bob = &queue(&mut client, key)[0];
        assert_eq!((&bob.owner[..], bob.id, bob.timeout), ("bob", id, 70_000));
    }
    release(&mut client, "a b", "alice");
    assert!(mail.next().ends_with(" bob"));
    let all = grants(other.ask(&ask("b a", "bob", "ONCE BLOCK 70000 NOTIFY ch"))).unwrap();
    assert_eq!(all.holds, [1, 1]);
}

/// Other keys are another ask, and so another place.
#[test]
fn other_keys_are_another_place() {
    let (_server, mut client, mut mail) = start();
    for keys in ["a b", "a", "b a c", "a b"] {
        queue_up(&mut client, keys, "bob");
    }
    client.ask::<Value>("LOCK.ACQUIRE a OWNER bob ONCE BLOCK 600000 NOTIFY ch");
    assert_eq!(count(&mut client, "lock_places"), 4);
    assert_eq!(owners(&mut client, "a"), ["bob"; 4]);
    assert_eq!(owners(&mut client, "b"), ["bob"; 2]);
    release(&mut client, "a b", "alice");
    // All are the owner's, and all are told, of one grant.
    let told: Vec<_> = (0..4).map(|_| mail.next()).collect();
    assert!(told.iter().all(|text| text.ends_with(" bob")), "{told:?}");
    let all = grants(client.ask(&ask("a b c", "bob", "ONCE"))).unwrap();
    assert_eq!(all.holds, [1, 1, 1]);
}

#[test]
fn leave_of_any_of_its_keys_gives_up_the_whole() {
    let (server, mut client, mut mail) = start();
    for key in ["a", "b", "free"] {
        queue_up(&mut client, "free b a", "bob");
        let mut behind = waits_for_one(&server, "free", "carol");
        assert_eq!(client.ask::<i64>(&format!("LOCK.LEAVE {key} carol")), 0, "blocked");
        assert_eq!(client.ask::<i64>("LOCK.LEAVE other bob"), 0);
        assert_eq!(client.ask::<i64>(&format!("LOCK.LEAVE {key} bob")), 1);
        behind.granted();
        assert_eq!(client.ask::<i64>(&format!("LOCK.LEAVE {key} bob")), 0);
        assert_eq!(count(&mut client, "lock_places"), 0, "{key}");
        assert!(owners(&mut client, "a").is_empty() && owners(&mut client, "b").is_empty());
        free(&mut client, "free", "carol");
    }
    assert_eq!(mail.rest(&mut client), [""; 0]);
}

/// What the owner had before, it has afterwards.
#[test]
fn leave_takes_back_only_what_was_not_claimed() {
    let (_server, mut client, mut mail) = start();
    holds_one(&mut client, "mine", "bob");
    // Without `ONCE`, so that it is one more hold.
    client.ask::<Value>(&ask("a mine b", "bob", "BLOCK 0 NOTIFY ch"));
    release(&mut client, "a b", "alice");
    mail.next();
    assert_eq!(client.holder("mine").unwrap().holds, 2);
    assert_eq!(client.ask::<i64>("LOCK.LEAVE b bob"), 1);
    assert_eq!(client.holder("mine").unwrap().holds, 1);
    soon("the others to be free", || holders(&mut client, ["a", "b"]) == ["-", "-"]);
}

#[test]
fn a_place_ends_with_its_connection_on_each_lock() {
    let (server, mut client, mut mail) = start();
    let mut bob = server.client();
    queue_up(&mut bob, "a free b", "bob");
    let mut behind = waits_for_one(&server, "free", "carol");
    drop(bob);
    behind.granted();
    soon("the end of its places", || {
        owners(&mut client, "a").is_empty() && owners(&mut client, "b").is_empty()
    });
    assert_eq!((count(&mut client, "lock_places"), mail.rest(&mut client).len()), (0, 0));
}

#[test]
fn a_place_of_several_counts_for_each_of_its_locks() {
    let (_server, mut client) = Setup::new().module_args("max-places 5").start_and_client();
    holds(&mut client, "a b", "alice", "");
    for owner in ["bob", "carol"] {
        queue_up(&mut client, "a b", owner);
    }
    let full = "MAXPLACES too many places and sessions hang on this connection (lock.max-places)";
    super::is_refused(&mut client, &ask("b a c", "dave", "BLOCK 0 NOTIFY ch"), full);
    queue_up(&mut client, "b a", "bob");
    assert!(client.acquire("c", "OWNER any").is_some(), "nothing was reserved");
    client.ask::<i64>("LOCK.LEAVE b carol");
    queue_up(&mut client, "b a d", "dave");
    client.ask::<i64>("LOCK.LEAVE a bob");
    let long = "n".repeat(1024);
    super::is_refused(&mut client, &ask(&format!("a {long}"), "bob", "BLOCK 0 NOTIFY ch"), full);
    queue_up(&mut client, "a n", "bob");
}

/// Any of the queues that is full refuses the whole.
#[test]
fn a_full_queue_of_one_refuses_all() {
    let (server, mut client) = Setup::new().module_args("max-waiters 2").start_and_client();
    holds(&mut client, "a b", "alice", "");
    let _ones = ["x", "y"].map(|owner| waits_for_one(&server, "b", owner));
    let full = "MAXWAITERS the queue of this lock is full (lock.max-waiters)";
    for keys in ["a b free", "b a free", "free b"] {
        super::is_refused(&mut client, &ask(keys, "bob", "BLOCK 0"), full);
        super::is_refused(&mut client, &ask(keys, "bob", "BLOCK 0 NOTIFY ch"), full);
    }
    assert!(owners(&mut client, "a").is_empty());
    gets_null(&mut client, &ask("a b", "bob", ""));
    let _all = [waits(&server, "a free", "bob", ""), waits(&server, "free a", "carol", "")];
    super::is_refused(&mut client, "LOCK.ACQUIRE free OWNER dave BLOCK 0", full);
    assert_eq!(count(&mut client, "lock_waiters"), 4);
}
