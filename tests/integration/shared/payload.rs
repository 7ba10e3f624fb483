//! `RESTORE` of a payload with several grants that no server of ours would write: an error, and nothing stored.

use super::holds;
use crate::input::payload::{refused, refused_or_in_range, restore};
use crate::support::{Item, Part, Payload, Server, reader, restore_from_primary};

const LONGEST: u64 = (1 << 53) - 1;

/// A sample of a server's, from which others are made.
fn any(server: &Server) -> Payload {
    Payload::lock(&mut server.client(), b"x", 1, 1)
}

/// Where in its grants the parts of the first lie.
const FIRST: usize = 4;
const PARTS: usize = 7;

#[test]
fn it_is_dumped_in_the_documented_encoding_and_comes_back() {
    let (server, mut client) = Server::and_client();
    let a = holds(&mut client, "a", "SHARED");
    let b = holds(&mut client, "b", "SHARED");
    // From then on they have no end, which is easier to tell than when it is.
    client.ask::<()>("PERSIST k");
    holds(&mut client, "b", "SHARED");
    let [a, b] = [a, b].map(|grant| grant.fence as u64);
    let payload = any(&server).packed(true, &[reader(b"a", a), Part { holds: 2, ..reader(b"b", b) }]);
    assert_eq!(client.ask::<Vec<u8>>("DUMP k"), payload.encode());
    client.ask::<()>("DEL k");
    restore(&mut client, &payload.encode()).unwrap();
    let lasting: Vec<_> =
        client.holders("k").iter().map(|one| (one.fence as u64, one.holds, one.limit)).collect();
    assert_eq!(lasting, [(a, 1, 0), (b, 2, 0)]);
    assert_eq!(client.ask::<Vec<u8>>("DUMP k"), payload.encode());
}

#[test]
fn the_ends_of_each_range_are_taken() {
    let (server, mut client) = Server::and_client();
    let any = any(&server);
    let owner = [b'x'; 128];
    let widest = Part {
        holds: (1 << 32) - 1,
        max_hold: LONGEST,
        room: (1 << 32) - 2,
        shorter: 59_000,
        ..reader(&owner, LONGEST)
    };
    let payload = any.with_grants(0, &[reader(b"a", 1), widest]).encode();
    restore_from_primary(&mut client, "k", 60000, &payload);
    let last = client.holders("k").pop().unwrap();
    assert_eq!((last.holds, last.limit, last.owner.len()), ((1 << 32) - 1, (1 << 32) - 2, 128));
    // As many as the room of each is for.
    let three = [1, 2, 3].map(|fence| Part { room: 3, ..reader(&owner[..fence as usize], fence) });
    restore(&mut client, &any.with_grants(0, &three).encode()).unwrap();
    assert_eq!(client.holders("k").len(), 3);
    // Even a plain one, in the wider form.
    restore(&mut client, &any.with_grants(0, &[Part { room: 1, ..reader(b"a", 5) }]).encode()).unwrap();
    assert_eq!(super::shown(&mut client, "mode"), "exclusive");
}

#[test]
fn grants_that_cannot_be_held_together() {
    let (server, mut client) = Server::and_client();
    let any = any(&server);
    let (a, b) = (reader(b"a", 5), reader(b"b", 6));
    let cases: [(&str, u64, &[Part<'_>]); 9] = [
        ("no grants", 0, &[]),
        ("a plain one beside a reader", 0, &[Part { room: 1, ..a }, b]),
        ("three with room for two", 0, &[a, Part { room: 2, ..b }, reader(b"c", 7)]),
        ("two of one owner", 0, &[a, Part { owner: b"a", ..b }]),
        ("two with one fence", 0, &[a, Part { fence: 5, ..b }]),
        ("fences that fall", 0, &[b, a]),
        ("no latest lease", 0, &[Part { shorter: 1, ..a }, Part { shorter: 2, ..b }]),
        ("none without an end", 1, &[Part { shorter: 5_000_000_000_000, ..a }]),
        ("another number for that", 2, &[a, b]),
    ];
    for (what, endless, grants) in cases {
        refused(&mut client, what, &any.with_grants(endless, grants).encode());
    }
    for count in [0, 1, 3, 1 << 32, u64::MAX] {
        let mut payload = any.with_grants(0, &[a, b]);
        payload.items[2] = Item::Number(count);
        refused(&mut client, &format!("{count} in place of 2"), &payload.encode());
    }
    for form in [0, 1, 3, 4, u64::MAX] {
        let mut payload = any.with_grants(0, &[a, b]);
        payload.items[1] = Item::Number(form);
        refused(&mut client, &format!("the form {form}"), &payload.encode());
    }
}

#[test]
fn values_out_of_range() {
    let (server, mut client) = Server::and_client();
    let any = any(&server);
    let good = reader(b"b", 6);
    let long = [b'x'; 129];
    let bad = [
        Part { owner: b"", ..good },
        Part { owner: &long, ..good },
        Part { fence: 0, ..good },
        Part { fence: LONGEST + 1, ..good },
        Part { holds: 0, ..good },
        Part { holds: 1 << 32, ..good },
        Part { max_hold: LONGEST + 1, ..good },
        Part { made: 1 << 63, ..good },
        Part { room: u64::from(u32::MAX), ..good },
        Part { room: 1 << 63, ..good },
        Part { shorter: 1 << 63, ..good },
        Part { shorter: u64::MAX, ..good },
    ];
    for (number, bad) in bad.into_iter().enumerate() {
        refused(
            &mut client,
            &format!("number {number}"),
            &any.with_grants(0, &[reader(b"a", 5), bad]).encode(),
        );
    }
}

#[test]
fn parts_of_another_kind_too_few_or_too_many() {
    let (server, mut client) = Server::and_client();
    let good = any(&server).with_grants(0, &[reader(b"alice", 5), reader(b"bob", 6)]);
    assert_eq!(good.items.len(), FIRST + 2 * PARTS);
    for place in 0..good.items.len() {
        let mut payload = good.clone();
        payload.items[place] = match payload.items[place] {
            Item::Number(_) => Item::Bytes(b"1".to_vec()),
            Item::Bytes(_) => Item::Number(1),
        };
        refused(&mut client, &format!("another kind at {place}"), &payload.encode());
        let mut payload = good.clone();
        payload.items.remove(place);
        refused(&mut client, &format!("none at {place}"), &payload.encode());
    }
    let mut payload = good;
    payload.items.push(Item::Number(1));
    refused(&mut client, "one too many", &payload.encode());
}

#[test]
fn cut_off_anywhere_and_with_any_bit_turned() {
    /// The type's name and encoding: another type's payload is not ours to judge.
    const HEAD: usize = 10;
    let (server, mut client) = Server::and_client();
    let parts =
        [reader(b"alice", 70_000), Part { holds: 70_000, room: 3, shorter: 70, ..reader(b"bob", 70_001) }];
    let payload = any(&server).with_grants(0, &parts);
    let body = payload.body();
    let stored = (1..body.len()).filter(|&end| {
        refused_or_in_range(&mut client, &format!("cut off at {end}"), &payload.seal(&body[..end]))
    });
    assert!(stored.count() <= 2, "the server itself reads on into the footer");
    for place in HEAD..body.len() {
        for bit in 0..8 {
            let mut turned = body.clone();
            turned[place] ^= 1 << bit;
            refused_or_in_range(&mut client, &format!("bit {bit} of byte {place}"), &payload.seal(&turned));
        }
    }
    assert!(refused_or_in_range(&mut client, "whole", &payload.encode()));
}
