//! Fences in payloads that clients send, with `RESTORE` or `MIGRATE`. A refused payload changes nothing; an accepted one is ahead by no
//! more than clocks may be wrong.

use crate::input::payload::{BAD, restore};
use crate::support::{
    Client, Item, Part, Payload, Server, Setup, reader, restore_from_primary, wait_for, wall_clock,
};

const GREATEST: u64 = (1 << 53) - 1;
const MINUTE: i64 = 60_000_000;

/// Returns the fence of a grant that would be made in this many µs.
fn ahead(micros: i64) -> u64 {
    (wall_clock() * 1000 + micros) as u64
}

/// Checks that the next grant has a fence of about now.
#[track_caller]
fn is_not_ahead(client: &mut Client, what: &str) {
    let fence = client.acquire("next", "").unwrap().fence as u64;
    client.ask::<()>("LOCK.BREAK next");
    assert!(fence < ahead(MINUTE), "{what}: the next fence is {fence}");
}

#[track_caller]
fn refused(client: &mut Client, what: &str, payload: &[u8]) {
    assert_eq!(restore(client, payload), Err(BAD.into()), "{what}");
    is_not_ahead(client, what);
}

/// The payload is refused whatever is wrong with it.
#[test]
fn a_refused_payload_leaves_the_clock_of_fences_alone() {
    let (_server, mut client) = Server::and_client();
    for fence in [GREATEST, ahead(5 * MINUTE)] {
        let plain = Payload::lock(&mut client, b"alice", fence, 1);
        let last = Part { shorter: 5, ..reader(b"alice", fence) };
        refused(&mut client, "no latest lease", &plain.packed(false, &[last]).encode());
        let two = [reader(b"alice", fence), reader(b"bob", 5)];
        refused(&mut client, "not in order", &plain.packed(false, &two).encode());
        let mut longer = plain.clone();
        longer.items.push(Item::Number(1));
        refused(&mut client, "no end where it should be", &longer.encode());
        let mut shorter = plain.clone();
        shorter.items.pop();
        refused(&mut client, "an end too early", &shorter.encode());
        let wrong = plain.clone().with_encoding(3);
        refused(&mut client, "another encoding", &wrong.encode());
    }
}

/// The server parses the payload before it checks its expiry.
#[test]
fn a_payload_that_has_expired_leaves_it_alone_too() {
    let (_server, mut client) = Server::and_client();
    let payload = Payload::lock(&mut client, b"alice", ahead(5 * MINUTE), 1).encode();
    client.ask_words::<(), _>([b"RESTORE", &b"k"[..], b"1", &payload, b"ABSTTL"]);
    assert_eq!(client.ask::<i64>("EXISTS k"), 0);
    is_not_ahead(&mut client, "expired");
}

#[test]
fn a_payload_too_far_ahead_is_refused_and_the_log_says_why() {
    let (server, mut client) = Server::and_client();
    for fence in [ahead(11 * MINUTE), GREATEST] {
        let plain = Payload::lock(&mut client, b"alice", fence, 1);
        refused(&mut client, "a plain lock", &plain.encode());
        let several = plain.packed(false, &[reader(b"bob", 5), reader(b"alice", fence)]);
        refused(&mut client, "several grants", &several.encode());
        let line = format!(
            "cannot load a lockstate: the fence {fence} is ahead of the clock by more than ten minutes"
        );
        assert!(server.log().contains(&line), "no {line}");
    }
}

/// A client may send thousands of such payloads, so only ten refusals a second are logged as warnings.
#[test]
fn of_many_that_are_refused_ten_a_second_are_warnings() {
    const MANY: usize = 300;
    let (server, mut client) = Server::and_client();
    let payload = Payload::lock(&mut client, b"alice", GREATEST, 1).encode();
    (0..MANY).for_each(|_| assert_eq!(restore(&mut client, &payload), Err(BAD.into())));
    let lines = |what: &str| {
        let log = server.log();
        log.lines().filter(|line| line.contains(what)).map(str::to_owned).collect::<Vec<_>>()
    };
    let count = |line: &str| -> usize {
        let (_, told) = line.split_once("<lock> ").unwrap();
        told.split(' ').next().unwrap().parse().unwrap()
    };
    let left_out = || lines("more refused payloads").iter().map(|line| count(line)).sum::<usize>();
    let written = || lines("cannot load a lockstate").len();
    wait_for("the count", || left_out() > 0 && written() + left_out() == MANY);
    assert!((10..=30).contains(&written()), "{}", written());
}

#[test]
fn the_next_fence_is_above_that_of_a_payload() {
    let (_server, mut client) = Server::and_client();
    let sample = Payload::lock(&mut client, b"x", 1, 1);
    for minutes in 1..4 {
        let fence = ahead(minutes * MINUTE);
        restore(&mut client, &sample.with_lock(b"alice", fence, 1).encode()).unwrap();
        assert_eq!(client.acquire("next", "").unwrap().fence as u64, fence + 1);
        client.ask::<()>("LOCK.BREAK next");
        let fence = fence + 9;
        let grants = [reader(b"alice", 5), reader(b"bob", fence)];
        restore(&mut client, &sample.packed(false, &grants).encode()).unwrap();
        assert_eq!(client.acquire("next", "").unwrap().fence as u64, fence + 1);
        client.ask::<()>("LOCK.BREAK next");
    }
}

/// Such a fence does not advance the clock of fences, so it may be as far ahead as this clock is.
#[test]
fn a_fence_that_the_server_has_seen_may_come_back() {
    let (_server, mut client) = Server::and_client();
    let payload = Payload::lock(&mut client, b"alice", ahead(60 * MINUTE), 1).encode();
    restore_from_primary(&mut client, "k", 60_000, &payload);
    client.ask::<()>("DEL k");
    restore(&mut client, &payload).unwrap();
    assert_eq!(client.holder("k").unwrap().owner, "alice");
}

/// The migration succeeds or fails; the lock keeps its fence in both cases.
#[test]
fn a_migrated_lock_keeps_its_fence() {
    let (from, to) = (Server::start(), Server::start());
    let (mut here, mut there) = (from.client(), to.client());
    let sample = Payload::lock(&mut here, b"x", 1, 1);
    let migrate = format!("MIGRATE 127.0.0.1 {} k 0 5000", to.port());
    let fence = ahead(5 * MINUTE);
    restore_from_primary(&mut here, "k", 60_000, &sample.with_lock(b"alice", fence, 1).encode());
    here.ask::<()>(&migrate);
    assert_eq!(there.holder("k").unwrap().fence as u64, fence);
    assert_eq!(there.acquire("next", "").unwrap().fence as u64, fence + 1);
    there.ask::<()>("LOCK.BREAK k");
    let far = ahead(60 * MINUTE);
    restore_from_primary(&mut here, "k", 60_000, &sample.with_lock(b"alice", far, 1).encode());
    assert!(here.refused(&migrate).contains(BAD));
    assert_eq!(here.holder("k").unwrap().fence as u64, far);
    assert!(there.holder("k").is_none());
}

/// Fences from files and primaries are accepted, however far ahead they are.
#[test]
fn fences_of_files_and_primaries_are_believed() {
    for aof in ["no", "yes"] {
        let setup = || Setup::new().set("appendonly", aof).set("appendfsync", "always");
        let mut server = setup().start();
        let mut client = server.client();
        let fence = ahead(60 * MINUTE);
        let payload = Payload::lock(&mut client, b"alice", fence, 1).encode();
        restore_from_primary(&mut client, "k", 600_000, &payload);
        match aof {
            "no" => server.save_and_restart(),
            _ => server.kill_and_restart(),
        }
        let replica = server.replica_with(setup());
        // The payload comes as a command in the replication stream.
        let mut primary = server.client();
        primary.ask_words::<(), _>([b"RESTORE", &b"l"[..], b"600000", &payload]);
        replica.wait_for_sync_with(&server);
        assert_eq!(replica.client().holder("l").unwrap().fence as u64, fence);
        replica.client().ask::<()>("REPLICAOF NO ONE");
        for server in [&server, &replica] {
            assert_eq!(
                server.client().acquire("next", "").unwrap().fence as u64,
                fence + 1,
                "appendonly {aof}"
            );
        }
    }
}
