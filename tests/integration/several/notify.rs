//! `NOTIFY`: one message for all locks, and one claim.

use redis::Value;

use super::{ask, count, free, gets_null, grants, holders, holds, release};
use crate::support::{Client, heard, owners, wait_for};

/// Asks with `NOTIFY ch`.
#[track_caller]
fn notify(client: &mut Client, keys: &str, owner: &str, options: &str) -> Value {
    client.ask(&ask(keys, owner, &format!("{options} ONCE NOTIFY ch")))
}

#[track_caller]
fn queue_up(client: &mut Client, keys: &str, owner: &str, options: &str) {
    let reply = notify(client, keys, owner, &format!("{options} BLOCK 600000"));
    assert_eq!(reply, Value::SimpleString("QUEUED".into()), "{keys} {owner}");
}

#[test]
fn several_locks_are_told_by_one_message_and_claimed_at_once() {
    let (_server, mut client, mut mail) = heard("claim 600000");
    holds(&mut client, "a b", "alice", "");
    queue_up(&mut client, "b a c", "bob", "");
    assert_eq!((count(&mut client, "lock_places"), count(&mut client, "lock_waiters")), (1, 1));
    for key in ["a", "b"] {
        assert_eq!(owners(&mut client, key), ["bob"]);
    }
    gets_null(&mut client, "LOCK.ACQUIRE c OWNER late");
    free(&mut client, "a", "alice");
    assert_eq!(mail.rest(&mut client), [""; 0]);
    free(&mut client, "b", "alice");
    wait_for("the grant", || holders(&mut client, ["a", "b", "c"]) == ["bob"; 3]);
    let fence = client.holder("a").unwrap().fence;
    assert_eq!(mail.next(), format!("granted {fence} bob"));
    let all = grants(notify(&mut client, "a b c", "bob", "PX 700000")).unwrap();
    assert_eq!((all.fences, all.holds, all.lease), (vec![fence; 3], vec![1; 3], 700_000));
    assert_eq!((count(&mut client, "lock_places"), count(&mut client, "lock_waiters")), (0, 0));
    assert_eq!(mail.rest(&mut client), [""; 0]);
    assert_eq!(release(&mut client, "a b c", "bob"), [Some(0); 3]);
}
