//! `LIMIT n`: each holder has a number from 1 to n.

use std::time::Instant;

use redis::Value;

use super::hundred::{assert_same_but_for, kept, works};
use super::{gets_null, holds, readers, release, shown, take, waits};
use crate::input::payload::restore;
use crate::several::{self, Grants};
use crate::support::{
    Client, Part, Payload, Server, Waiter, heard, no_integer, not_positive, owners, reader,
    restore_from_primary, syntax_at,
};

const OTHER_SLOT: &str = "ERR the grant of this owner can't have that slot";

/// The number that an owner is told.
#[track_caller]
fn slot(client: &mut Client, owner: &str, options: &str) -> i64 {
    holds(client, owner, options).slot.expect("a number")
}

/// The numbers that `LOCK.INFO` shows, the oldest grant first.
#[track_caller]
fn slots(client: &mut Client) -> Vec<i64> {
    client.holders("k").iter().map(|holder| holder.slot).collect()
}

#[test]
fn each_holder_has_the_least_number_that_is_free() {
    let (server, mut client) = Server::and_client();
    for (number, owner) in (1..).zip(["a", "b", "c"]) {
        assert_eq!(slot(&mut client, owner, "LIMIT 3"), number);
    }
    assert_eq!((slots(&mut client), shown(&mut client, "slot")), (vec![1, 2, 3], "1".into()));
    release(&mut client, "b");
    assert_eq!(slot(&mut client, "d", "LIMIT 3"), 2);
    assert_eq!(slot(&mut client, "d", "LIMIT 3"), 2, "a re-entry");
    assert_eq!(slot(&mut client, "d", "LIMIT 9 ONCE"), 2, "whatever the limit, and with ONCE");
    client.ask::<i64>("LOCK.EXTEND k d PX 700000");
    assert_eq!(slots(&mut client), [1, 3, 2], "the oldest grant first");
    // The next in the queue gets what is free then.
    let mut e = waits(&server, "e", "LIMIT 3");
    let fence = client.held_by("k", "a").unwrap().fence;
    client.ask::<i64>(&format!("LOCK.BREAK k FENCE {fence}"));
    assert_eq!(e.granted().slot, Some(1));
}

#[test]
fn readers_and_plain_locks_are_told_no_number() {
    let (_server, mut client) = Server::and_client();
    assert_eq!(holds(&mut client, "a", "SHARED").slot, None);
    assert_eq!(slot(&mut client, "b", "LIMIT 2"), 1);
    assert_eq!(slots(&mut client), [0, 1]);
    release(&mut client, "b");
    // A reader that wants to be one of two has a number from then on.
    assert_eq!(slot(&mut client, "a", "LIMIT 2"), 1);
    release(&mut client, "a");
    release(&mut client, "a");
    let reply: Vec<Value> = client.ask("LOCK.ACQUIRE k OWNER a");
    assert_eq!(reply.len(), 4);
    // The only permit is the first.
    assert_eq!(shown(&mut client, "slot"), "1");
    assert_eq!(slot(&mut client, "a", "LIMIT 1"), 1);
    assert_eq!(slot(&mut client, "a", "LIMIT 5 SLOT 1"), 1);
}

#[test]
fn a_worker_that_comes_back_asks_for_its_number() {
    let (server, mut client) = Server::and_client();
    assert_eq!(slot(&mut client, "a", "LIMIT 4 SLOT 3"), 3);
    assert_eq!(slot(&mut client, "b", "SLOT 4 LIMIT 4"), 4, "in any order");
    gets_null(&mut client, "c", "LIMIT 4 SLOT 3");
    assert_eq!(slot(&mut client, "c", "LIMIT 4"), 1);
    assert_eq!(slot(&mut client, "a", "LIMIT 4 SLOT 3 ONCE"), 3);
    // It waits for that one, and those who come later wait behind it.
    let mut third = waits(&server, "d", "LIMIT 4 SLOT 3");
    let mut behind = waits(&server, "e", "LIMIT 4");
    release(&mut client, "c");
    assert_eq!(owners(&mut client, "k"), ["d", "e"], "there is room, but another number is free");
    release(&mut client, "a");
    assert_eq!((third.granted().slot, behind.granted().slot), (Some(3), Some(1)));
}

#[test]
fn a_number_does_not_change_while_it_is_held() {
    let (_server, mut client) = Server::and_client();
    slot(&mut client, "a", "LIMIT 5 SLOT 4");
    slot(&mut client, "b", "LIMIT 5");
    let before = client.snapshot();
    for options in ["LIMIT 5 SLOT 3", "LIMIT 5 SLOT 1", "LIMIT 5 SLOT 2 BLOCK 0 ONCE"] {
        assert_eq!(client.refused(&format!("LOCK.ACQUIRE k OWNER a {options}")), OTHER_SLOT, "{options}");
    }
    for limit in [3, 1] {
        let refused = client.refused(&format!("LOCK.ACQUIRE k OWNER a LIMIT {limit}"));
        let above = format!("ERR this owner has permit number 4, above the LIMIT {limit} that it asks for");
        assert_eq!(refused, above);
    }
    assert_eq!((client.snapshot(), slots(&mut client)), (before, vec![4, 1]));
    // Nor when it becomes exclusive.
    release(&mut client, "b");
    assert_eq!(take(&mut client, "a", "").unwrap().slot, None);
    assert_eq!((shown(&mut client, "mode"), slots(&mut client)), ("exclusive".into(), vec![4]));
    assert_eq!(slot(&mut client, "a", "LIMIT 5"), 4);
}

/// Its owner has got another number meanwhile, by another connection.
#[test]
fn a_waiter_for_another_number_is_told_so() {
    let (server, mut client, mut mail) = heard("");
    holds(&mut client, "w", "");
    let mut blocked = waits(&server, "a", "LIMIT 5 SLOT 3");
    let place = "LOCK.ACQUIRE k OWNER a LIMIT 5 SLOT 4 ONCE BLOCK 0 NOTIFY ch";
    assert_eq!(client.ask::<String>(place), "QUEUED");
    release(&mut client, "w");
    assert_eq!(blocked.granted().slot, Some(3));
    assert_eq!(mail.next(), "gone a");
    assert_eq!(client.refused(place), OTHER_SLOT);
    // A reader that waits to have one of those numbers, while its owner takes another.
    release(&mut client, "a");
    readers(&mut client, ["a", "b"]);
    slot(&mut client, "c", "LIMIT 3");
    let mut first = waits(&server, "a", "LIMIT 3 SLOT 1");
    assert_eq!(slot(&mut client, "a", "LIMIT 3"), 2);
    assert_eq!(first.refused(), OTHER_SLOT);
    assert_eq!(slots(&mut client), [2, 0, 1]);
}

#[test]
fn several_locks_have_their_numbers_in_the_order_of_the_keys() {
    let (server, mut client) = Server::and_client();
    client.acquire("b", "OWNER x LIMIT 3").unwrap();
    let ask = |keys: &str, owner: &str, options: &str| several::ask(keys, owner, options);
    let mut take = |line: String| -> Grants { several::grants(client.ask(&line)).expect("all of them") };
    assert_eq!(take(ask("a b c", "y", "LIMIT 3")).slots, [1, 2, 1]);
    assert_eq!(take(ask("c b", "y", "LIMIT 3")).slots, [1, 2]);
    assert_eq!(take(ask("a c", "z", "LIMIT 3 SLOT 3")).slots, [3, 3]);
    assert!(take(ask("d e", "y", "SHARED")).slots.is_empty());
    assert_eq!(client.ask::<Value>(&ask("b c", "v", "LIMIT 3 SLOT 2")), Value::Nil, "of b it is taken");
    let mut waiter = Waiter::of_words(
        &server,
        server.client(),
        ask("b c", "v", "LIMIT 3 SLOT 2 BLOCK 0").split_whitespace(),
    );
    client.ask::<Value>("LOCK.MRELEASE 3 a b c y ALL");
    assert_eq!(several::grants(waiter.reply().unwrap()).unwrap().slots, [2, 2]);
}

#[test]
fn words_that_are_refused() {
    let (_server, mut client) = Server::and_client();
    slot(&mut client, "a", "LIMIT 3");
    let before = client.snapshot();
    const RANGE: &str = "SLOT must be between 1 and 3 (LIMIT)";
    let above = format!("ERR value is out of range, {RANGE}");
    let cases = [
        ("SLOT 1", syntax_at("SLOT")),
        ("SHARED SLOT 1", syntax_at("SLOT")),
        ("LIMIT 3 SLOT", syntax_at("SLOT")),
        ("LIMIT 3 SLOT 1 SLOT 1", syntax_at("SLOT")),
        ("LIMIT 3 SLOT 0", not_positive(RANGE)),
        ("LIMIT 3 SLOT -1", not_positive(RANGE)),
        ("LIMIT 3 SLOT x", no_integer(RANGE)),
        ("LIMIT 3 SLOT 9223372036854775808", no_integer(RANGE)),
        ("LIMIT 3 SLOT 4", above.clone()),
        ("LIMIT 3 SLOT 4294967297", above),
    ];
    for (options, error) in cases {
        assert_eq!(client.refused(&format!("LOCK.ACQUIRE k OWNER b {options}")), error, "{options}");
        assert_eq!(client.refused(&format!("LOCK.MACQUIRE 2 k l OWNER b {options}")), error, "{options}");
    }
    assert_eq!(client.snapshot(), before);
}

#[test]
fn permits_beside_a_reader_are_dumped_in_the_documented_encoding_and_come_back() {
    let (_server, mut client) = Server::and_client();
    let asks = [("a", "LIMIT 4"), ("b", "LIMIT 4 SLOT 3"), ("r", "SHARED")];
    let [a, b, r] = asks.map(|(owner, options)| holds(&mut client, owner, options).fence as u64);
    // From then on they have no end, which is easier to tell than when it is.
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

/// Grants of an earlier version have none until their owners ask again.
#[test]
fn grants_that_were_made_without_numbers_get_them_when_their_owners_ask_again() {
    let (_server, mut client) = Server::and_client();
    let permit = |owner, fence| Part { room: 3, ..reader(owner, fence) };
    let payload = Payload::lock(&mut client, b"x", 1, 1).with_grants(0, &[permit(b"a", 5), permit(b"b", 6)]);
    restore_from_primary(&mut client, "k", 600_000, &payload.encode());
    assert_eq!(slots(&mut client), [0, 0]);
    assert_eq!(slot(&mut client, "c", "LIMIT 3"), 1);
    gets_null(&mut client, "b", "LIMIT 3 SLOT 1");
    assert_eq!(client.refused("LOCK.ACQUIRE k OWNER b LIMIT 9 SLOT 9 ONCE"), OTHER_SLOT, "its room is 3");
    assert_eq!(slot(&mut client, "b", "LIMIT 3 SLOT 3 ONCE"), 3);
    assert_eq!(slot(&mut client, "a", "LIMIT 3 ONCE"), 2);
    assert_eq!(slots(&mut client), [2, 3, 1]);
}

/// As `MIGRATE` and a slot that moves carry it.
#[test]
fn a_hundred_numbers_go_to_another_server() {
    let (from, to) = (Server::start(), Server::start());
    let (mut here, mut there) = (from.client(), to.client());
    super::hundred::take(&mut here, "k");
    let before = kept(&mut here, "k");
    let numbers: std::collections::BTreeSet<i64> =
        before.iter().map(|one| one.holder.slot).filter(|slot| *slot > 0).collect();
    assert_eq!(numbers.len(), before.iter().filter(|one| one.holder.limit > 0).count(), "each is one's");
    // It sends how long leases last yet, so they end later by what it takes.
    let begin = Instant::now();
    here.ask::<()>(&format!("MIGRATE 127.0.0.1 {} k 0 30000", to.port()));
    assert_same_but_for(&kept(&mut there, "k"), &before, begin.elapsed().as_millis() as i64);
    works(&mut there, "k");
}
