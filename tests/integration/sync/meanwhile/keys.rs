//! The lock itself is taken away, or changes.

use redis::Value;

use super::{Pair, unconfirmed};
use crate::support::{freeze, wait_for, wake};

/// All ways to take a grant from its owner.
const ENDS: [&str; 7] =
    ["DEL k", "UNLINK k", "FLUSHALL", "FLUSHDB ASYNC", "LOCK.BREAK k", "SET k x", "RENAME k l"];

#[test]
fn a_grant_that_has_ended_is_not_told() {
    let lines = [
        "LOCK.ACQUIRE k OWNER alice PX 60000 SYNC 1 25000",
        "LOCK.ACQUIRE k OWNER alice PX 60000 SHARED SYNC 1 25000",
        "LOCK.ACQUIRE k OWNER alice PX 60000 SESSION SYNC 1 25000",
        "LOCK.ACQUIRE k OWNER alice PX 60000 BLOCK 0 SYNC 1 25000",
        "LOCK.MACQUIRE 2 other k OWNER alice PX 60000 SYNC 1 25000",
    ];
    let pair = Pair::start();
    let mut client = pair.primary.client();
    for line in lines {
        for end in ENDS {
            freeze(&pair.replica);
            let mut alice = unconfirmed(&pair.primary, line);
            client.ask::<Value>(end);
            wake(&pair.replica);
            assert_eq!(alice.client.finish(), Ok(Value::Nil), "{line}, {end}");
            // Of several locks she has none then.
            wait_for("the end of all grants", || client.lock_info("other").is_none());
            client.ask::<()>("FLUSHALL");
        }
    }
}

/// A lease that somebody cuts short ends without a word of the replicas.
#[test]
fn a_grant_whose_lease_ends_meanwhile_is_not_told() {
    let pair = Pair::stopped();
    let mut client = pair.primary.client();
    let mut alice = unconfirmed(&pair.primary, "LOCK.ACQUIRE k OWNER alice PX 60000 SYNC 1 25000");
    client.ask::<()>("PEXPIRE k 200");
    wait_for("the lapse", || client.lock_info("k").is_none());
    wake(&pair.replica);
    assert_eq!(alice.client.finish(), Ok(Value::Nil));
}
