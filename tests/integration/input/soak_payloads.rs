//! `RESTORE` payloads altered at random, with the right checksum: an error or a lock in range, never a crash.

use std::collections::HashMap;

use redis::Value;

use crate::support::{Client, Item, Part, Payload, Rng, Server, convert, figure, reader, size};

const BAD: &str = "ERR Bad data format";
/// The kind of the value; with another one it is another type's payload.
const KIND: usize = 1;
/// How many go to the server in one go.
const AT_ONCE: usize = 250;

/// Payloads of every kind of lock.
fn samples(client: &mut Client) -> Vec<Payload> {
    let any = Payload::lock(client, b"x", 1, 1);
    let mut samples = vec![
        any.with_lock(b"alice", 1_795_000_000_000_000, 1),
        any.with_lock(b"0c1b6a0e-4f6b-4d0c-8f7e-3f8f1f0a9b11", 1_795_000_000_000_001, 70_000),
        any.with_lock(&[b'x'; 128], 1_795_000_000_000_002, (1 << 32) - 1),
        any.with_lock(b"\xff\0\r\n", 1, 64),
    ];
    let mut with_age = samples[0].clone();
    with_age.items[4] = Item::Number(600_000);
    samples.push(with_age);
    let alice = reader(b"alice", 1_795_000_000_000_000);
    let bob = Part { holds: 70_000, room: 3, shorter: 5000, ..reader(b"\xff\0\r\n", 1_795_000_000_000_001) };
    let uuid = b"0c1b6a0e-4f6b-4d0c-8f7e-3f8f1f0a9b11";
    let carol = Part { max_hold: 600_000, made: 1_795_000_000_000, ..reader(uuid, 1_795_000_000_000_002) };
    samples.push(any.with_grants(0, &[alice]));
    samples.push(any.with_grants(0, &[alice, bob, carol]));
    samples.push(any.with_grants(1, &[alice, Part { shorter: 4_000_000_000_000, ..bob }]));
    let labelled = Part { slot: 2, label: b"a label", ..bob };
    samples.push(any.packed(false, &[Part { room: 1, ..alice }]));
    samples.push(any.packed(false, &[alice, labelled, carol]));
    samples.push(any.packed(true, &[alice, Part { shorter: 4_000_000_000_000, ..labelled }]));
    samples
}

/// A number as it is likely to be mistaken.
fn number(rng: &mut Rng) -> u64 {
    let bits = rng.below(65) as u32;
    let power = 1_u64.checked_shl(bits).unwrap_or(0);
    power.wrapping_add(rng.below(3) as u64).wrapping_sub(1)
}

/// Changes the parts of the value, each well written.
fn alter_parts(rng: &mut Rng, payload: &mut Payload) {
    let place = rng.below(payload.items.len());
    match rng.below(6) {
        0 => payload.items[place] = Item::Number(number(rng)),
        1 => payload.items[place] = Item::Bytes(vec![rng.next() as u8; rng.below(300)]),
        2 => drop(payload.items.remove(place)),
        3 => payload.items.insert(place, Item::Number(number(rng))),
        4 => {
            let other = rng.below(payload.items.len());
            payload.items.swap(place, other);
        }
        _ => *payload = payload.clone().with_encoding(rng.below(1024) as u16),
    }
}

/// Changes bytes of the value, but for its kind.
fn alter_bytes(rng: &mut Rng, body: &mut Vec<u8>) {
    let place = KIND + rng.below(body.len() - KIND);
    match rng.below(6) {
        0 => body[place] ^= 1 << rng.below(8),
        1 => body[place] = rng.next() as u8,
        2 => body.truncate(place),
        3 => drop(body.remove(place)),
        4 => body.insert(place, rng.next() as u8),
        _ => {
            let end = (place + 1 + rng.below(16)).min(body.len());
            let piece = body[place..end].to_vec();
            let at = KIND + rng.below(body.len() - KIND);
            body.splice(at..at, piece);
        }
    }
}

fn altered(rng: &mut Rng, samples: &[Payload]) -> Vec<u8> {
    let mut payload = rng.one_of(samples).clone();
    let parts = rng.percent(40);
    if parts {
        alter_parts(rng, &mut payload);
    }
    let mut body = payload.body();
    if !parts || rng.percent(20) {
        for _ in 0..1 + rng.below(3) {
            if body.len() > KIND + 1 {
                alter_bytes(rng, &mut body);
            }
        }
    }
    payload.seal(&body)
}

/// Sends payloads; how many were taken for a lock. Each of those is in range, and its own dump restores it.
#[track_caller]
fn restore_all(client: &mut Client, payloads: &[Vec<u8>]) -> usize {
    for (number, payload) in payloads.iter().enumerate() {
        let key = format!("k{number}");
        client.begin_words([b"RESTORE", key.as_bytes(), b"600000", payload]);
        client.begin(&format!("LOCK.INFO {key} FULL"));
        client.begin(&format!("DUMP {key}"));
    }
    let mut dumps = Vec::new();
    for payload in payloads {
        let shown = || format!("payload \"{}\"", payload.escape_ascii());
        let restored = client.finish();
        let (info, dump) = (client.finish().unwrap(), client.finish().unwrap());
        match restored {
            Ok(_) => {
                in_range(info, &shown());
                dumps.push(convert::<Vec<u8>>(dump));
            }
            Err(error) => {
                assert_eq!(error, BAD, "{}", shown());
                assert_eq!(info, Value::Nil, "{}", shown());
            }
        }
    }
    client.ask::<()>("FLUSHALL");
    for dump in &dumps {
        client.begin_words([b"RESTORE", &b"k"[..], b"600000", dump, b"REPLACE"]);
        client.begin("DUMP k");
    }
    for dump in &dumps {
        client.finish().unwrap();
        assert_eq!(convert::<Vec<u8>>(client.finish().unwrap()), *dump);
    }
    client.ask::<()>("FLUSHALL");
    dumps.len()
}

/// What `LOCK.INFO ... FULL` says of each grant.
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

#[test]
fn altered_at_random() {
    let count = size(1_000, 100_000);
    let mut rng = Rng::new();
    let (_server, mut client) = Server::and_client();
    let samples = samples(&mut client);
    let mut taken = 0;
    for _ in 0..count / AT_ONCE {
        let payloads: Vec<_> = (0..AT_ONCE).map(|_| altered(&mut rng, &samples)).collect();
        taken += restore_all(&mut client, &payloads);
    }
    assert!(taken > 0 && taken < count, "{taken} of {count}");
    // The server still works. It has seen the greatest fence, and grants nothing more.
    let sample = samples[0].encode();
    client.ask_words::<(), _>([b"RESTORE", &b"k"[..], b"600000", &sample]);
    assert_eq!(client.acquire("k", "OWNER alice").unwrap().holds, 2);
    assert_eq!(client.ask::<i64>("LOCK.RELEASE k alice ALL"), 0);
    figure("altered RESTORE payloads", format_args!("{count}, of which {taken} were a lock in range"));
}
