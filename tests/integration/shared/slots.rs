//! `LIMIT n`: each holder has a slot, a number from 1 to n.

use std::time::Instant;

use redis::Value;

use super::hundred::{assert_same_but_for, kept, works};
use super::{gets_null, holds, release, shown};
use crate::input::payload::restore;
use crate::support::{Client, Part, Payload, Server, reader, restore_from_primary};

const OTHER_SLOT: &str = "ERR the grant of this owner can't have that slot";

/// Returns the slot in the reply.
#[track_caller]
fn slot(client: &mut Client, owner: &str, options: &str) -> i64 {
    holds(client, owner, options).slot.expect("a number")
}

/// Returns the slots in `LOCK.INFO`, the oldest grant first.
#[track_caller]
fn slots(client: &mut Client) -> Vec<i64> {
    client.holders("k").iter().map(|holder| holder.slot).collect()
}

#[test]
fn readers_and_plain_locks_are_told_no_number() {
    let (_server, mut client) = Server::and_client();
    assert_eq!(holds(&mut client, "a", "SHARED").slot, None);
    assert_eq!(slot(&mut client, "b", "LIMIT 2"), 1);
    assert_eq!(slots(&mut client), [0, 1]);
    release(&mut client, "b");
    // A holder with `SHARED` that asks with `LIMIT 2` gets a slot.
    assert_eq!(slot(&mut client, "a", "LIMIT 2"), 1);
    release(&mut client, "a");
    release(&mut client, "a");
    let reply: Vec<Value> = client.ask("LOCK.ACQUIRE k OWNER a");
    assert_eq!(reply.len(), 4);
    // An exclusive grant has slot 1.
    assert_eq!(shown(&mut client, "slot"), "1");
    assert_eq!(slot(&mut client, "a", "LIMIT 1"), 1);
    assert_eq!(slot(&mut client, "a", "LIMIT 5 SLOT 1"), 1);
}

#[test]
fn permits_beside_a_reader_are_dumped_in_the_documented_encoding_and_come_back() {
    let (_server, mut client) = Server::and_client();
    let asks = [("a", "LIMIT 4"), ("b", "LIMIT 4 SLOT 3"), ("r", "SHARED")];
    let [a, b, r] = asks.map(|(owner, options)| holds(&mut client, owner, options).fence as u64);
    // Leases without an end are easier to compare than leases with one.
    client.ask::<()>("PERSIST k");
    holds(&mut client, "b", "LIMIT 4");
    let permit = |owner, fence, slot| Part { room: 4, slot, ..reader(owner, fence) };
    let parts = [permit(b"a", a, 1), Part { holds: 2, ..permit(b"b", b, 3) }, reader(b"r", r)];
    let payload = Payload::lock(&mut client, b"x", 1, 1).packed(true, &parts).encode();
    assert_eq!(client.ask::<Vec<u8>>("DUMP k"), payload);
    client.ask::<()>("DEL k");
    restore(&mut client, &payload).unwrap();
    let lasting =
        client.holders("k").into_iter().map(|one| (one.fence as u64, one.holds, one.limit, one.slot));
    assert_eq!(lasting.collect::<Vec<_>>(), [(a, 1, 4, 1), (b, 2, 4, 3), (r, 1, 0, 0)]);
    assert_eq!(client.ask::<Vec<u8>>("DUMP k"), payload);
    assert_eq!(slot(&mut client, "c", "LIMIT 4"), 2);
}

/// An earlier version made these grants without slots; they get slots when their owners ask again.
#[test]
fn grants_that_were_made_without_numbers_get_them_when_their_owners_ask_again() {
    let (_server, mut client) = Server::and_client();
    let permit = |owner, fence| Part { room: 3, ..reader(owner, fence) };
    let payload = Payload::lock(&mut client, b"x", 1, 1).packed(false, &[permit(b"a", 5), permit(b"b", 6)]);
    restore_from_primary(&mut client, "k", 600_000, &payload.encode());
    assert_eq!(slots(&mut client), [0, 0]);
    assert_eq!(slot(&mut client, "c", "LIMIT 3"), 1);
    gets_null(&mut client, "b", "LIMIT 3 SLOT 1");
    assert_eq!(client.refused("LOCK.ACQUIRE k OWNER b LIMIT 9 SLOT 9 ONCE"), OTHER_SLOT, "its room is 3");
    assert_eq!(slot(&mut client, "b", "LIMIT 3 SLOT 3 ONCE"), 3);
    let above = "ERR this owner has permit number 3, above the LIMIT 2 that it asks for";
    assert_eq!(client.refused("LOCK.ACQUIRE k OWNER b LIMIT 2"), above);
    assert_eq!(slot(&mut client, "a", "LIMIT 3 ONCE"), 2);
    assert_eq!(slots(&mut client), [2, 3, 1]);
}

/// `MIGRATE` sends the slots, as a moving hash slot does.
#[test]
fn a_hundred_numbers_go_to_another_server() {
    let (from, to) = (Server::start(), Server::start());
    let (mut here, mut there) = (from.client(), to.client());
    super::hundred::take(&mut here, "k");
    let before = kept(&mut here, "k");
    let numbers: std::collections::BTreeSet<i64> =
        before.iter().map(|one| one.holder.slot).filter(|slot| *slot > 0).collect();
    assert_eq!(numbers.len(), before.iter().filter(|one| one.holder.limit > 0).count(), "each is one's");
    // `MIGRATE` sends the remaining time of the leases, so they end later by the duration of the move.
    let begin = Instant::now();
    here.ask::<()>(&format!("MIGRATE 127.0.0.1 {} k 0 30000", to.port()));
    assert_same_but_for(&kept(&mut there, "k"), &before, begin.elapsed().as_millis() as i64);
    works(&mut there, "k");
}
