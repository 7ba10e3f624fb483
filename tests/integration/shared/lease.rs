//! All leases of a lock share one key: its TTL is the latest end, and a change of the TTL moves all leases.

use redis::Value;

use super::{count, holds};
use crate::support::{Client, HELD_BY_ANOTHER, Server, wait_for};

/// The longest time, in ms, that may pass on a busy machine between two commands.
const SLACK: i64 = 40_000;

/// Returns the rest of each lease in units of 100 s, rounded up because time passes. -1: the lease has no end.
#[track_caller]
fn hundreds(client: &mut Client) -> Vec<i64> {
    let hundreds = |lease: i64| if lease < 0 { lease } else { (lease + SLACK) / 100_000 };
    let leases: Vec<_> = client.holders("k").into_iter().map(|holder| hundreds(holder.lease)).collect();
    let latest = if leases.contains(&-1) { -1 } else { leases.iter().copied().max().unwrap_or(-2) };
    assert_eq!(hundreds(client.ask("PTTL k")), latest, "the key's TTL is the latest lease");
    leases
}

/// Owners a, b and c hold the lock with `SHARED`, for 300 s, 600 s and 500 s.
#[track_caller]
fn three(client: &mut Client) {
    for (owner, lease) in [("a", 300_000), ("b", 600_000), ("c", 500_000)] {
        holds(client, owner, &format!("SHARED PX {lease}"));
    }
    assert_eq!(hundreds(client), [3, 6, 5]);
}

/// Commands on the lock of `three`, each with the leases afterwards.
type Row<'a> = &'a [(&'a str, &'a [i64])];

#[test]
fn an_extension_is_of_one_and_what_moves_the_key_moves_all() {
    let (_server, [mut client, mut eyes]) = Server::and_clients();
    let rows: [Row<'_>; 9] = [
        &[
            ("LOCK.EXTEND k a PX 900000", &[9, 6, 5]),
            ("LOCK.EXTEND k a PX 100000", &[1, 6, 5]),
            ("LOCK.EXTEND k b PX 200000", &[1, 2, 5]),
            ("LOCK.EXTEND k c EX 400", &[1, 2, 4]),
        ],
        // The end of the latest lease does not change the others.
        &[("LOCK.RELEASE k b", &[3, 5]), ("LOCK.RELEASE k c", &[3])],
        &[("PEXPIRE k 900000", &[6, 9, 8])],
        // A lease that begins after the change is not moved.
        &[
            ("EXPIRE k 400", &[1, 4, 3]),
            ("LOCK.ACQUIRE k OWNER d SHARED PX 700000", &[1, 4, 3, 7]),
            ("PEXPIRE k 1000000", &[4, 7, 6, 10]),
        ],
        // One owner gets an end again, but the key has no TTL as long as another lease has no end.
        &[
            ("PERSIST k", &[-1, -1, -1]),
            ("LOCK.EXTEND k a PX 100000", &[1, -1, -1]),
            ("LOCK.EXTEND k b PX 300000", &[1, 3, -1]),
            ("LOCK.EXTEND k c PX 200000", &[1, 3, 2]),
        ],
        &[("PERSIST k", &[-1, -1, -1]), ("PEXPIRE k 900000", &[6, 9, 8])],
        // A lease with an end of its own keeps it when the key gets a TTL.
        &[
            ("PERSIST k", &[-1, -1, -1]),
            ("LOCK.EXTEND k a PX 100000", &[1, -1, -1]),
            ("PEXPIRE k 300000", &[1, 3, 3]),
        ],
        &[
            ("MULTI", &[3, 6, 5]),
            ("PEXPIRE k 900000", &[3, 6, 5]),
            ("LOCK.EXTEND k c PX 100000", &[3, 6, 5]),
            ("PEXPIRE k 1000000", &[3, 6, 5]),
            ("EXEC", &[7, 10, 2]),
        ],
        &[("PEXPIREAT k 1", &[])],
    ];
    for row in rows {
        three(&mut client);
        for (line, expected) in row {
            client.ask::<Value>(line);
            assert_eq!(hundreds(&mut eyes), *expected, "{row:?}: {line}");
        }
        client.ask::<()>("LOCK.BREAK k");
    }
}

/// A lease that the change moves into the past has lapsed; the others continue.
#[test]
fn moved_back_beyond_the_end_of_some_they_lapse() {
    let (_server, mut client) = Server::and_client();
    three(&mut client);
    client.ask::<()>("PEXPIRE k 200000");
    wait_for("a lapse", || client.holding("k") == ["b", "c"]);
    assert_eq!(hundreds(&mut client), [2, 1]);
    assert_eq!(client.refused("LOCK.EXTEND k a"), HELD_BY_ANOTHER);
    wait_for("its count", || count(&mut client, "lock_lapses") == 1);
    client.ask::<()>("PEXPIRE k 900000");
    assert_eq!(hundreds(&mut client), [9, 8]);
}
