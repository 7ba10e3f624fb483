//! Locks with several grants are unchanged after they were saved and loaded. `far` tests leases of all lengths and without an end.

use super::holds;
use super::hundred::{COUNT, assert_same, kept, state, take, works};
use crate::support::{Client, Server, in_each_kind_of_file};

/// Saves a hundred grants of all kinds, a hundred of which some have changed, and a single grant of each kind.
#[test]
fn grants_come_back_from_each_kind_of_file() {
    const KEYS: [&str; 5] = ["k", "l", "reader", "permit", "plain"];
    let known = |client: &mut Client| KEYS.map(|key| (kept(client, key), state(client, key)));
    in_each_kind_of_file(
        |client| {
            take(client, "k");
            let owners = client.holding("k");
            let fence = client.holders("k")[7].fence;
            for line in [
                format!("LOCK.EXTEND k {} PX 900000", owners[2]),
                format!("LOCK.EXTEND k {} PX 700000", owners[99]),
                format!("LOCK.RELEASE k {} ALL", owners[0]),
                format!("LOCK.RELEASE k {}", owners[2]),
                format!("LOCK.BREAK k FENCE {fence}"),
                format!("LOCK.ACQUIRE k OWNER {} LIMIT 150", owners[6]),
                "PEXPIRE k 800000".into(),
                "LOCK.ACQUIRE k OWNER later SHARED PX 1000000".into(),
                "RENAME k l".into(),
            ] {
                client.ask::<redis::Value>(&line);
            }
            take(client, "k");
            for (key, room) in KEYS.into_iter().zip(["", "", "SHARED", "LIMIT 2", "LIMIT 7 SLOT 6"]).skip(2) {
                client.acquire(key, &format!("OWNER a PX 600000 {room}")).unwrap();
            }
            // A re-entry without `LIMIT` must not change the slot of the grant.
            client.acquire("plain", "OWNER a").unwrap();
            known(client)
        },
        |server, before| {
            let mut client = server.client();
            for ((now, state_now), (before, state)) in known(&mut client).iter().zip(&before) {
                assert_same(now, before);
                assert_eq!(state_now, state);
            }
            assert_eq!(before[1].0.len(), COUNT - 1);
            works(&mut client, "k");
            let fits = |client: &mut Client, key: &str, owner: &str| {
                client.acquire(key, &format!("OWNER {owner} SHARED")).is_some()
            };
            assert_eq!(KEYS.map(|key| fits(&mut client, key, "b")), [true, true, true, true, false]);
            assert!(!fits(&mut client, "permit", "c"));
        },
    );
}

/// The TTL of `RESTORE` is the end of the latest lease, and the others end by as much earlier as before.
#[test]
fn restored_with_another_ttl_all_leases_are_moved() {
    let (_server, mut client) = Server::and_client();
    for (owner, lease) in [("a", 300_000), ("b", 600_000)] {
        holds(&mut client, owner, &format!("SHARED PX {lease}"));
    }
    let dump: Vec<u8> = client.ask("DUMP k");
    let leases = |client: &mut Client| -> Vec<i64> {
        client.holders("k").iter().map(|holder| (holder.lease + 40_000).div_euclid(100_000)).collect()
    };
    for (ttl, expected) in
        [("900000", vec![6, 9]), ("400000", vec![1, 4]), ("200000", vec![2]), ("0", vec![0, 0])]
    {
        client.ask_words::<(), _>([b"RESTORE", &b"k"[..], ttl.as_bytes(), &dump, b"REPLACE"]);
        assert_eq!(leases(&mut client), expected, "{ttl}");
    }
}
