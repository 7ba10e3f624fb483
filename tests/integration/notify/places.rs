//! A place in the queue: taken, kept, given up.

use std::time::{Duration, Instant};

use redis::Value;

use super::queue_up;
use crate::support::{owners, transaction, wait_for};

/// It hears that it has to ask again, and of no loss: it did not know of its grant.
#[test]
fn gone_if_its_grant_ends_before_it_is_told() {
    for start in ["ONCE", "ONCE START 1"] {
        for line in
            ["LOCK.BREAK k", "DEL k", "FLUSHDB", "RENAME k r", "MOVE k 1", "SWAPDB 0 1", "PEXPIRE k 0"]
        {
            let (_server, mut client, mut mail) = super::held("");
            let ask = format!("LOCK.ACQUIRE k OWNER bob PX 60000 BLOCK 0 NOTIFY ch {start}");
            assert_eq!(client.send(&ask), Ok(Value::SimpleString("QUEUED".into())));
            transaction(&mut client, &["LOCK.RELEASE k alice", line]);
            assert_eq!(mail.next(), "gone bob", "{line}, {start}");
            wait_for(&format!("the end of bob's grant ({line}, {start})"), || {
                ["db0", "db1"].iter().all(|db| client.info("keyspace", db).is_empty())
            });
            assert!(mail.rest(&mut client).is_empty(), "{line}, {start}");
        }
    }
}

#[test]
fn a_wait_that_is_over_is_told_and_not_early() {
    let (_server, mut client, mut mail) = super::held("");
    let began = Instant::now();
    queue_up(&mut client, "bob", "BLOCK 150");
    assert_eq!(mail.next(), "timeout bob");
    assert!(began.elapsed() >= Duration::from_millis(150));
    assert!(owners(&mut client, "k").is_empty());
    assert_eq!(client.info("lock", "lock_timeouts"), "1");
    assert_eq!(client.info("lock", "lock_places"), "0");
}
