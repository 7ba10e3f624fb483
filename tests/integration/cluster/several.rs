//! Several locks of one slot, and moves of a slot for whose locks clients wait.

use super::nodes::Cluster;
use super::slots::asking;
use crate::several::{ask, granted, grants};
use crate::support::{Client, Mailbox, Server, Setup, Waiter, wait_for};

const CROSS_SLOT: &str = "CROSSSLOT Keys in request don't hash to the same slot";

/// Returns a client that waits for these locks.
#[track_caller]
fn waits(server: &Server, keys: &str, owner: &str) -> Waiter {
    let line = ask(keys, owner, "BLOCK 0");
    Waiter::of_words(server, server.client(), line.split_whitespace())
}

#[track_caller]
fn holds(client: &mut Client, keys: &str, owner: &str) -> i64 {
    grants(client.ask(&ask(keys, owner, ""))).expect("grants").fences[0]
}

#[test]
fn several_locks_of_one_command_must_be_in_one_slot() {
    let cluster = Cluster::start(Setup::new(), false);
    let slot: u16 = cluster.client(0).ask("CLUSTER KEYSLOT {k}");
    let at = cluster.owner_of(slot);
    let mut client = cluster.client(at);
    holds(&mut client, "{k}a {k}b", "alice");
    let before = client.snapshot();
    for keys in ["{k}a {l}b", "{k}c {k}d {x}e", "a b"] {
        let count = keys.split(' ').count();
        for line in [
            ask(keys, "alice", ""),
            ask(keys, "alice", "BLOCK 0"),
            format!("LOCK.MRELEASE {count} {keys} alice"),
            format!("LOCK.MEXTEND {count} {keys} alice"),
        ] {
            assert_eq!(client.refused(&line), CROSS_SLOT, "{line}");
        }
    }
    assert_eq!(client.snapshot(), before);
    let moved = format!("MOVED {slot} 127.0.0.1:{}", cluster.nodes[at].port());
    let mut other = cluster.client((at + 1) % 3);
    for line in [
        &ask("{k}a {k}b", "bob", "BLOCK 0")[..],
        "LOCK.MRELEASE 2 {k}a {k}b alice",
        "LOCK.MEXTEND 1 {k}a alice",
    ] {
        assert_eq!(other.refused(line), moved, "{line}");
    }
}

#[test]
fn a_slot_moves_and_those_who_wait_for_several_are_redirected() {
    let cluster = Cluster::start(Setup::new(), false);
    let slot: u16 = cluster.client(0).ask("CLUSTER KEYSLOT {k}");
    let from = cluster.owner_of(slot);
    let to = (from + 1) % 3;
    let (old, new) = (&cluster.nodes[from], &cluster.nodes[to]);
    let (mut here, mut there) = (old.client(), new.client());
    let mut mail = Mailbox::of(old, "ch");
    let fence = holds(&mut here, "{k}a {k}b", "alice");
    holds(&mut here, "{k}c", "carol");
    let mut waiters = ["{k}a {k}b", "{k}free {k}b", "{k}c {k}a {k}free"].map(|keys| waits(old, keys, "bob"));
    let mut asker = old.client();
    asker.ask::<redis::Value>(&ask("{k}b {k}free2 {k}c", "dave", "ONCE BLOCK 0 NOTIFY ch"));
    cluster.begin_move(slot, from, to);
    for key in ["{k}a", "{k}b"] {
        cluster.move_key(key, from, to);
    }
    // A waiter gets nothing from the locks that are still here, because the others have moved.
    assert_eq!(here.ask::<i64>("LOCK.RELEASE {k}c carol"), 0);
    for waiter in &waiters {
        assert!(waiter.is_blocked(&mut here));
    }
    cluster.end_move(slot, from, to);
    let moved = format!("MOVED {slot} 127.0.0.1:{}", new.port());
    for waiter in &mut waiters {
        assert_eq!(waiter.client.finish(), Err(moved.clone()));
    }
    assert_eq!(mail.next(), "gone dave");
    wait_for("no waiters", || here.info("lock", "lock_waiters") == "0");
    assert_eq!(here.info("lock", "lock_places"), "0");
    assert_eq!(here.ask::<i64>("DBSIZE"), 0);
    // On the new node the locks continue with the same fences; nothing is reserved.
    let mut waiter = waits(new, "{k}b {k}free {k}a", "erin");
    let line = format!("LOCK.MRELEASE 2 {{k}}a {{k}}b alice FENCE {fence}");
    assert_eq!(there.ask::<Vec<i64>>(&line), [0, 0]);
    assert!(granted(&mut waiter).fences[0] > fence);
    holds(&mut there, "{k}c {k}free2", "frank");
}

#[test]
fn while_a_slot_is_on_its_way_all_keys_have_to_be_here() {
    let cluster = Cluster::start(Setup::new(), false);
    let slot: u16 = cluster.client(0).ask("CLUSTER KEYSLOT {k}");
    let from = cluster.owner_of(slot);
    let to = (from + 1) % 3;
    let (mut here, mut there) = (cluster.client(from), cluster.client(to));
    let fence = holds(&mut here, "{k}a {k}b", "alice");
    cluster.begin_move(slot, from, to);
    // All locks are still on this node.
    assert_eq!(here.ask::<i64>("LOCK.MEXTEND 2 {k}a {k}b alice PX 700000"), 700_000);
    cluster.move_key("{k}a", from, to);
    for line in
        ["LOCK.MEXTEND 2 {k}a {k}b alice", "LOCK.MRELEASE 2 {k}b {k}a alice", &ask("{k}a {k}b", "alice", "")]
    {
        assert!(here.refused(line).starts_with("TRYAGAIN "), "{line}");
        assert!(asking(&mut there, line).unwrap_err().starts_with("TRYAGAIN "), "{line}");
    }
    cluster.move_key("{k}b", from, to);
    let got = asking(&mut there, &ask("{k}b {k}a", "alice", "ONCE")).unwrap();
    assert_eq!(grants(got).unwrap().fences, [fence, fence]);
    cluster.end_move(slot, from, to);
    assert_eq!(there.ask::<Vec<i64>>("LOCK.MRELEASE 2 {k}a {k}b alice"), [0, 0]);
}
