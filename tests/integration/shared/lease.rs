//! The leases of several grants hang on one key: its TTL is the latest, and what moves it moves all alike.

use super::{NOT_HELD, count, holds, readers, release, shown};
use crate::support::{Client, Server, wait_for};

/// What a busy machine takes at most between two looks, in ms.
const SLACK: i64 = 40_000;

/// What is left of each lease, in units of 100 s: rounded up, as time goes by.
#[track_caller]
fn hundreds(client: &mut Client) -> Vec<i64> {
    let leases = client.holders("k").into_iter().map(|holder| holder.lease);
    let leases: Vec<_> = leases.map(|lease| (lease + SLACK) / 100_000).collect();
    let left: i64 = client.ask("PTTL k");
    assert_eq!((left + SLACK) / 100_000, *leases.iter().max().unwrap(), "the key's TTL is the latest lease");
    leases
}

/// Owners a, b and c read for 300 s, 600 s and 500 s.
#[track_caller]
fn three(client: &mut Client) {
    for (owner, lease) in [("a", 300_000), ("b", 600_000), ("c", 500_000)] {
        holds(client, owner, &format!("SHARED PX {lease}"));
    }
    assert_eq!(hundreds(client), [3, 6, 5]);
}

#[test]
fn an_extension_is_of_one() {
    let server = Server::start();
    let mut client = server.client();
    three(&mut client);
    assert_eq!(client.ask::<i64>("LOCK.EXTEND k a PX 900000"), 900_000);
    assert_eq!(hundreds(&mut client), [9, 6, 5]);
    assert_eq!(client.ask::<i64>("LOCK.EXTEND k a PX 100000"), 100_000);
    assert_eq!(hundreds(&mut client), [1, 6, 5]);
    assert_eq!(client.ask::<i64>("LOCK.EXTEND k b PX 200000"), 200_000);
    assert_eq!(hundreds(&mut client), [1, 2, 5]);
    let fence = client.held_by("k", "c").unwrap().fence;
    assert_eq!(client.ask::<i64>(&format!("LOCK.EXTEND k c EX 400 FENCE {fence}")), 400_000);
    assert_eq!(client.refused(&format!("LOCK.EXTEND k b FENCE {fence}")), NOT_HELD);
    assert_eq!(hundreds(&mut client), [1, 2, 4]);
}

#[test]
fn the_end_of_the_latest_leaves_the_others_as_they_are() {
    let server = Server::start();
    let mut client = server.client();
    three(&mut client);
    release(&mut client, "b");
    assert_eq!(hundreds(&mut client), [3, 5]);
    let fence = client.held_by("k", "c").unwrap().fence;
    client.ask::<()>(&format!("LOCK.BREAK k FENCE {fence}"));
    assert_eq!(hundreds(&mut client), [3]);
}

#[test]
fn what_moves_the_keys_ttl_moves_all_alike() {
    let server = Server::start();
    let mut client = server.client();
    for line in ["PEXPIRE k 900000", "EXPIRE k 900"] {
        three(&mut client);
        client.ask::<()>(line);
        assert_eq!(hundreds(&mut client), [6, 9, 8], "{line}");
        client.ask::<()>("LOCK.BREAK k");
    }
    three(&mut client);
    let ends: i64 = client.ask("PEXPIRETIME k");
    client.ask::<()>(&format!("PEXPIREAT k {}", ends - 200_000));
    assert_eq!(hundreds(&mut client), [1, 4, 3]);
    // What comes then is one as any.
    holds(&mut client, "d", "SHARED PX 700000");
    assert_eq!(hundreds(&mut client), [1, 4, 3, 7]);
    client.ask::<()>("PEXPIRE k 1000000");
    assert_eq!(hundreds(&mut client), [4, 7, 6, 10]);
}

/// A lease that would be over by that has lapsed; the others go on.
#[test]
fn moved_back_beyond_the_end_of_some_they_lapse() {
    let server = Server::start();
    let mut client = server.client();
    three(&mut client);
    client.ask::<()>("PEXPIRE k 200000");
    wait_for("a lapse", || client.holding("k") == ["b", "c"]);
    assert_eq!(hundreds(&mut client), [2, 1]);
    assert_eq!(client.refused("LOCK.EXTEND k a"), NOT_HELD);
    wait_for("its count", || count(&mut client, "lock_lapses") == 1);
    client.ask::<()>("PEXPIRE k 900000");
    assert_eq!(hundreds(&mut client), [9, 8]);
}

#[test]
fn an_expiry_at_once_ends_all() {
    let server = Server::start();
    let mut client = server.client();
    for line in ["EXPIRE k 0", "PEXPIRE k -1", "PEXPIREAT k 1"] {
        three(&mut client);
        client.ask::<()>(line);
        assert_eq!(client.holders("k"), [], "{line}");
    }
}

#[test]
fn persist_takes_the_end_of_all_away() {
    let server = Server::start();
    let mut client = server.client();
    three(&mut client);
    assert_eq!(client.ask::<i64>("PERSIST k"), 1);
    let leases: Vec<_> = client.holders("k").iter().map(|holder| holder.lease).collect();
    assert_eq!(leases, [-1; 3]);
    assert_eq!(shown(&mut client, "lease-ms"), "-1");
    // One of them gets an end again, and the key has none as long as another has none.
    assert_eq!(client.ask::<i64>("LOCK.EXTEND k a PX 30"), 30);
    wait_for("its lapse", || client.holding("k") == ["b", "c"]);
    assert_eq!(client.ask::<i64>("PTTL k"), -1);
    assert_eq!(client.ask::<i64>("LOCK.EXTEND k b PX 300000"), 300_000);
    assert_eq!(client.ask::<i64>("LOCK.EXTEND k c PX 100000"), 100_000);
    assert_eq!(hundreds(&mut client), [3, 1]);
}

#[test]
fn persisted_ones_get_an_end_with_the_key() {
    let server = Server::start();
    let mut client = server.client();
    readers(&mut client, ["a", "b"]);
    client.ask::<()>("PERSIST k");
    client.ask::<()>("PEXPIRE k 300000");
    assert_eq!(hundreds(&mut client), [3, 3]);
}

#[test]
fn a_transaction_moves_them_too() {
    let server = Server::start();
    let mut client = server.client();
    three(&mut client);
    crate::support::transaction(
        &mut client,
        &["PEXPIRE k 900000", "LOCK.EXTEND k c PX 100000", "PEXPIRE k 1000000"],
    );
    assert_eq!(hundreds(&mut client), [7, 10, 2]);
}
