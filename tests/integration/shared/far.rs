//! Leases that end as late as possible, and that differ as much as possible, are unchanged after they were saved and loaded.

use super::hundred::{Kept, assert_same, kept, state};
use super::{holds, readers};
use crate::input::payload::restore;
use crate::support::{Client, Part, Payload, Server, in_each_kind_of_file, reader, wait_for};

const LONGEST: i64 = (1 << 53) - 1;

/// The grants of a lock, with the digest and the expiry of its key.
type Known = (Vec<Kept>, (String, i64));

fn known(client: &mut Client, key: &str) -> Known {
    (kept(client, key), state(client, key))
}

#[track_caller]
fn assert_all_same(client: &mut Client, before: &[(String, Known)]) {
    for (key, (grants, state)) in before {
        let (grants_now, state_now) = known(client, key);
        assert_eq!(state_now, *state, "{key}");
        assert_same(&grants_now, grants);
    }
}

/// Makes locks with short and very long leases, in all orders, and with changes of the key's TTL in between and afterwards. The name of
/// each lock says how it was made.
fn all(client: &mut Client) -> Vec<(String, Known)> {
    const MOVES: [&str; 5] = [
        "EXISTS _",
        "PERSIST _",
        "PEXPIRE _ 700000",
        "PEXPIREAT _ 4611686018427387904",
        "PEXPIREAT _ 9223372036854775807",
    ];
    let leases = [600_000, LONGEST];
    let mut locks = Vec::new();
    for (first, moved) in leases.into_iter().flat_map(|first| MOVES.map(|moved| (first, moved))) {
        for (second, then) in leases.into_iter().flat_map(|second| MOVES.map(|then| (second, then))) {
            let key = format!("{first},{moved},{second},{then}").replace(' ', ":");
            client.acquire(&key, &format!("OWNER a SHARED PX {first}")).unwrap();
            client.ask::<i64>(&moved.replace('_', &key));
            client.acquire(&key, &format!("OWNER b SHARED PX {second}")).unwrap();
            client.ask::<i64>(&then.replace('_', &key));
            let known = known(client, &key);
            locks.push((key, known));
        }
    }
    locks
}

#[test]
fn far_leases_come_back_from_each_kind_of_file() {
    in_each_kind_of_file(all, |server, before| assert_all_same(&mut server.client(), &before));
}

/// The oldest lease has ended, and the latest is as long as possible: a file stores the first one before the second one is known.
#[test]
fn one_that_is_over_takes_none_along() {
    in_each_kind_of_file(
        |client| {
            readers(client, ["a", "b"]);
            client.ask::<i64>("PEXPIREAT k 9223372036854775807");
            client.ask::<i64>("LOCK.EXTEND k a PX 1");
            wait_for("a lapse", || client.holding("k") == ["b"]);
            known(client, "k")
        },
        |server, before| {
            let mut client = server.client();
            assert_all_same(&mut client, &[("k".into(), before)]);
            holds(&mut client, "c", "LIMIT 2");
            assert_eq!(client.holding("k"), ["b", "c"]);
        },
    );
}

#[test]
fn far_leases_come_back_from_a_payload() {
    let (_server, mut client) = Server::and_client();
    let before = all(&mut client);
    for (key, (_, (_, ends))) in &before {
        let dump: Vec<u8> = client.ask(&format!("DUMP {key}"));
        let ends = (*ends).max(0).to_string();
        client.ask_words::<(), _>([
            b"RESTORE",
            key.as_bytes(),
            ends.as_bytes(),
            &dump,
            b"REPLACE",
            b"ABSTTL",
        ]);
        assert_eq!(client.ask::<Vec<u8>>(&format!("DUMP {key}")), dump, "{key}");
    }
    assert_all_same(&mut client, &before);
}

/// A payload may have the greatest possible number, which is written back unchanged.
#[test]
fn the_farthest_lease_is_taken_and_written_as_it_was() {
    const GREATEST: u64 = i64::MAX.unsigned_abs();
    let (_server, mut client) = Server::and_client();
    let any = Payload::lock(&mut client, b"x", 1, 1);
    let far = Part { shorter: GREATEST, ..reader(b"b", 6) };
    for (endless, held) in [(false, vec!["a"]), (true, vec!["a", "b"])] {
        let payload = any.packed(endless, &[reader(b"a", 5), far]).encode();
        restore(&mut client, &payload).unwrap();
        assert_eq!(client.holding("k"), held);
        assert_eq!(client.ask::<Vec<u8>>("DUMP k"), payload);
        // This lease does not disturb others.
        holds(&mut client, "c", "SHARED");
        assert_eq!(client.holding("k"), [held, vec!["c"]].concat());
    }
}

#[test]
fn the_digest_tells_leases_apart_however_far_the_latest_is() {
    let (_server, mut client) = Server::and_client();
    for ends in ["9007199254740991", "9223372036854775807"] {
        holds(&mut client, "a", "SHARED");
        client.ask::<i64>(&format!("PEXPIREAT k {ends}"));
        holds(&mut client, "b", "SHARED");
        let before = state(&mut client, "k");
        assert_eq!(client.ask::<i64>("LOCK.EXTEND k b PX 900000"), 900_000);
        let after = state(&mut client, "k");
        assert_eq!(after.1, before.1);
        assert_ne!(after.0, before.0, "{ends}");
        client.ask::<i64>("LOCK.BREAK k");
    }
}
