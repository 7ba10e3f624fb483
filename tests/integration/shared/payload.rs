//! `RESTORE` of a payload with several grants that no server with this module would write: an error, and nothing is stored.

use crate::input::payload::{refused_or_in_range, restore};
use crate::support::{Part, Payload, Server, reader, restore_from_primary};

const LONGEST: u64 = (1 << 53) - 1;

/// Returns a payload of this server, from which others are made.
fn any(server: &Server) -> Payload {
    Payload::lock(&mut server.client(), b"x", 1, 1)
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
    let payload = any.packed(false, &[reader(b"a", 1), widest]).encode();
    restore_from_primary(&mut client, "k", 60000, &payload);
    let last = client.holders("k").pop().unwrap();
    assert_eq!((last.holds, last.limit, last.owner.len()), ((1 << 32) - 1, (1 << 32) - 2, 128));
    // There are as many grants as the room of each allows.
    let three = [1, 2, 3].map(|fence| Part { room: 3, ..reader(&owner[..fence as usize], fence) });
    restore(&mut client, &any.packed(false, &three).encode()).unwrap();
    assert_eq!(client.holders("k").len(), 3);
    // An exclusive grant may also be encoded in this way.
    restore(&mut client, &any.packed(false, &[Part { room: 1, ..reader(b"a", 5) }]).encode()).unwrap();
    assert_eq!(super::shown(&mut client, "mode"), "exclusive");
}

#[test]
fn cut_off_anywhere_and_with_any_bit_turned() {
    /// The length of the type's name and encoding version. The module does not see payloads of other types, so these bytes are not changed.
    const HEAD: usize = 10;
    let (server, mut client) = Server::and_client();
    let parts =
        [reader(b"alice", 70_000), Part { holds: 70_000, room: 3, shorter: 70, ..reader(b"bob", 70_001) }];
    let payload = any(&server).packed(false, &parts);
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
