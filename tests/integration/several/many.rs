//! Many locks at once. What stays of waits for several is in `memory`: nothing.

use super::{count, granted, holds, release, take, waits};
use crate::support::Server;

/// How long a wait for several takes goes into the same buckets, once.
#[test]
fn the_counters_are_plausible() {
    let (server, mut client) = Server::and_client();
    holds(&mut client, "a b", "alice", "");
    let mut waiter = waits(&server, "a b c", "bob", "");
    assert_eq!(take(&mut client, "c d", "late", ""), None);
    release(&mut client, "a b", "alice");
    granted(&mut waiter);
    holds(&mut client, "a", "bob", "");
    let expected = [
        ("lock_grants", 5),
        ("lock_grants_shared", 0),
        ("lock_reentries", 1),
        ("lock_refusals", 1),
        ("lock_handovers", 3),
        ("lock_releases", 2),
        ("lock_keys", 3),
        ("lock_waiters", 0),
        ("lock_waits_all", 1),
        ("lock_timeouts", 0),
    ];
    for (field, value) in expected {
        assert_eq!(count(&mut client, field), value, "{field}");
    }
}
