//! A place in several queues: kept, given up, and how many there may be.

use redis::Value;

use super::{ask, count, gets_null, holds, waits, waits_for_one};
use crate::support::{Client, Setup, owners};

#[track_caller]
fn queue_up(client: &mut Client, keys: &str, owner: &str) {
    let reply: Value = client.ask(&ask(keys, owner, "ONCE BLOCK 600000 NOTIFY ch"));
    assert_eq!(reply, Value::SimpleString("QUEUED".into()), "{keys} {owner}");
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
