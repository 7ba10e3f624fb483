//! `RESTORE` of a payload that no server with this module would write: an error, and nothing is stored.

use std::collections::HashMap;

use redis::Value;

use crate::support::{Client, Item, Part, Payload, Server, Setup, convert, reader};

pub(crate) const BAD: &str = "ERR Bad data format";

pub(crate) fn restore(client: &mut Client, payload: &[u8]) -> Result<Value, String> {
    client.send_words([b"RESTORE", &b"k"[..], b"60000", payload, b"REPLACE"])
}

/// Restores an invalid payload, which must be refused, over a held lock, which must stay.
#[track_caller]
pub(crate) fn refused(client: &mut Client, what: &str, payload: &[u8]) {
    client.acquire("k", "OWNER holder ONCE PX 600000").unwrap();
    let before = client.snapshot();
    assert_eq!(restore(client, payload), Err(BAD.into()), "{what}");
    assert_eq!(client.snapshot(), before, "{what}");
}

#[test]
fn a_lock_is_dumped_in_the_documented_encoding_and_comes_back() {
    let (_server, mut client) = Server::and_client();
    let grant = client.acquire("k", "OWNER alice").unwrap();
    client.acquire("k", "OWNER alice").unwrap();
    let dump: Vec<u8> = client.ask("DUMP k");
    let alice = Part { room: 1, holds: 2, ..reader(b"alice", grant.fence as u64) };
    let payload = Payload::lock(&mut client, b"x", 1, 1).packed(false, &[alice]).encode();
    assert_eq!(dump, payload);
    client.ask::<()>("DEL k");
    restore(&mut client, &payload).unwrap();
    let holder = client.holder("k").unwrap();
    assert_eq!((&holder.owner[..], holder.fence, holder.holds), ("alice", grant.fence, 2));
    assert!(holder.lease > 50_000 && holder.lease <= 60_000, "{holder:?}");
    assert_eq!(client.ask::<i64>("LOCK.RELEASE k alice ALL"), 0);
}

#[test]
fn a_payload_with_grants_out_of_range_is_refused() {
    let (_server, mut client) = Server::and_client();
    let any = Payload::lock(&mut client, b"x", 1, 1);
    let (plain, most) = (Part { room: 1, ..reader(b"alice", 5) }, [b'x'; 129]);
    let widest = Part { holds: (1 << 32) - 1, max_hold: (1 << 53) - 1, made: 1, label: &most[1..], ..plain };
    restore(&mut client, &any.packed(false, &[widest]).encode()).unwrap();
    client.ask::<()>("DEL k");
    for (what, part) in [
        ("no holds", Part { holds: 0, ..plain }),
        ("too many holds", Part { holds: 1 << 32, ..plain }),
        ("holds beyond all", Part { holds: u64::MAX, ..plain }),
        ("a fence of 0", Part { fence: 0, ..plain }),
        ("a fence beyond 2^53 - 1", Part { fence: 1 << 53, ..plain }),
        ("a fence beyond all", Part { fence: u64::MAX, ..plain }),
        ("no owner", Part { owner: b"", ..plain }),
        ("a long owner", Part { owner: &most, ..plain }),
        ("a very long owner", Part { owner: &[b'x'; 100_000], ..plain }),
        ("a long label", Part { label: &most, ..plain }),
        ("a greatest age beyond 2^53 - 1", Part { max_hold: 1 << 53, ..plain }),
        ("a greatest age beyond all", Part { max_hold: u64::MAX, ..plain }),
        ("room beyond that of LIMIT", Part { room: u64::from(u32::MAX), ..plain }),
        ("room beyond all", Part { room: 1 << 63, ..plain }),
        ("made in no year", Part { made: 1 << 63, ..plain }),
        ("a slot above the room", Part { room: 3, slot: 4, ..plain }),
        ("a slot beyond LIMIT", Part { room: 1, slot: u64::from(u32::MAX), ..plain }),
        ("a slot beyond all", Part { room: 3, slot: u64::MAX, ..plain }),
        ("a reader with a slot", Part { slot: 1, ..reader(b"alice", 5) }),
        ("not the latest lease", Part { shorter: 1, ..plain }),
    ] {
        refused(&mut client, what, &any.packed(false, &[part]).encode());
    }
    let (a, b) = (reader(b"a", 5), reader(b"b", 6));
    for (what, two) in [
        ("a plain one beside a reader", [plain, b]),
        ("two of one owner", [a, Part { owner: b"a", ..b }]),
        ("two with one fence", [a, Part { fence: 5, ..b }]),
        ("fences that fall", [b, a]),
        ("a slot twice", [a, b].map(|part| Part { room: 3, slot: 2, ..part })),
        ("no latest lease", [Part { shorter: 1, ..a }, Part { shorter: 2, ..b }]),
        ("a lease beyond all", [a, Part { shorter: 1 << 63, ..b }]),
        ("a lease farthest beyond all", [a, Part { shorter: u64::MAX, ..b }]),
    ] {
        refused(&mut client, what, &any.packed(false, &two).encode());
    }
    let three = [a, Part { room: 2, ..b }, reader(b"c", 7)];
    refused(&mut client, "three with room for two", &any.packed(false, &three).encode());
    let ends = [Part { shorter: 5_000_000_000_000, ..a }];
    refused(&mut client, "none without an end", &any.packed(true, &ends).encode());
    let good = any.packed(false, &[a, b]);
    restore(&mut client, &good.encode()).unwrap();
    client.ask::<()>("DEL k");
    let altered = |items: Vec<Item>| {
        let mut payload = good.clone();
        payload.items = items;
        payload.encode()
    };
    refused(&mut client, "a grant that is missing", &altered(good.items[..1].to_vec()));
    refused(&mut client, "one too many", &altered([&good.items[..], &good.items[1..]].concat()));
    refused(&mut client, "a number", &altered(vec![Item::Number(1)]));
    let Item::Bytes(first) = &good.items[0] else { panic!("no bytes") };
    let odd: [&[u8]; 4] = [b"", &first[..5], &[0x80; 11], b"\x80\x08\x05\0\0\0\0\0\0a"];
    for bytes in odd {
        refused(&mut client, &format!("{bytes:?}"), &altered(vec![Item::Bytes(bytes.to_vec())]));
    }
    // A UUID must have 16 bytes.
    for len in [15, 17] {
        let bytes = [&b"\x01\x05\0\0\0\0\0\0"[..], &most[..len]].concat();
        refused(&mut client, &format!("a UUID of {len} bytes"), &altered(vec![Item::Bytes(bytes)]));
    }
}

#[test]
fn another_encoding_is_refused_and_the_log_says_why() {
    let (server, mut client) = Server::and_client();
    for version in [0, 1, 3, 1023] {
        let payload = Payload::lock(&mut client, b"alice", 5, 1).with_encoding(version).encode();
        refused(&mut client, &format!("encoding {version}"), &payload);
        let line =
            format!("cannot load a lockstate: it is in encoding {version}; this version of the module reads");
        assert!(server.log().contains(&line), "no {line}");
    }
}

/// Restores a payload that may be invalid or, by chance, valid: it is refused, or the stored lock has values in range. Returns whether it
/// was stored.
#[track_caller]
pub(crate) fn refused_or_in_range(client: &mut Client, what: &str, payload: &[u8]) -> bool {
    client.ask::<()>("DEL k");
    if let Err(error) = restore(client, payload) {
        assert_eq!(error, BAD, "{what}");
        assert_eq!(client.ask::<i64>("EXISTS k"), 0, "{what}");
        return false;
    }
    in_range(client.ask("LOCK.INFO k FULL"), what);
    true
}

#[test]
fn a_server_without_the_module_refuses_it() {
    let with = Server::start();
    let payload = Payload::lock(&mut with.client(), b"alice", 5, 1).encode();
    let without = Setup::new().without_module().start();
    restore(&mut without.client(), &payload).unwrap_err();
}

/// Checks the values of each grant in `LOCK.INFO ... FULL`.
#[track_caller]
pub(crate) fn in_range(info: Value, what: &str) {
    let mut info: HashMap<String, Value> = convert(info);
    let grants: Vec<HashMap<String, Value>> = convert(info.remove("grants").unwrap());
    assert!(!grants.is_empty(), "{what}: none");
    for grant in &grants {
        let owner: Vec<u8> = convert(grant["owner"].clone());
        let number = |name: &str| convert::<u64>(grant[name].clone());
        let (fence, holds, limit) = (number("fence"), number("holds"), number("limit"));
        assert!((1..=128).contains(&owner.len()), "{what}: {} bytes of owner", owner.len());
        assert!((1..1 << 53).contains(&fence), "{what}: fence {fence}");
        assert!((1..1 << 32).contains(&holds), "{what}: {holds} holds");
        assert!(limit == 0 || limit >= grants.len() as u64, "{what}: {} with room for {limit}", grants.len());
    }
}
