//! Atomic slot migration, as in Valkey 9 and Redis 8.4, which have different commands for it.

use std::collections::HashMap;
use std::time::Duration;

use redis::Value;

use super::nodes::Cluster;
use super::under_load::{SLOTS, end, load, wait_for_grants};
use crate::support::{Client, Mailbox, Setup, Waiter, WallClock, server_time, size, wait_for};

/// The commands of Valkey and of Redis that list slot migrations, the latest one first.
const MOVES: [&str; 2] = ["CLUSTER GETSLOTMIGRATIONS", "CLUSTER MIGRATION STATUS ALL"];

/// Returns the migrations that a node lists, or `None` if its server has no atomic slot migration.
fn moves(client: &mut Client) -> Option<Vec<HashMap<String, Value>>> {
    MOVES.iter().find_map(|line| client.send(line).ok()).map(|moves| redis::from_redis_value(moves).unwrap())
}

impl Cluster {
    /// Whether these servers have atomic slot migration; prints a note if not.
    fn can_move_at_once(&self) -> bool {
        let can = moves(&mut self.client(0)).is_some();
        if !can {
            println!("this server moves no slots at once");
        }
        can
    }

    /// Migrates slots, and waits until this is done. Valkey wants the command on the old node, Redis on the new one.
    fn move_at_once(&self, first: u16, last: u16, from: usize, to: usize) {
        let (mut old, mut new) = (self.client(from), self.client(to));
        let mut client = if old.send(MOVES[0]).is_ok() {
            old.ask::<()>(&format!("CLUSTER MIGRATESLOTS SLOTSRANGE {first} {last} NODE {}", self.id(to)));
            old
        } else {
            new.ask::<()>(&format!("CLUSTER MIGRATION IMPORT {first} {last}"));
            new
        };
        wait_for("the slots to move", || {
            let moves = moves(&mut client).unwrap();
            let state: String = redis::from_redis_value(moves[0]["state"].clone()).unwrap();
            assert!(!["failed", "cancelled", "canceled"].contains(&state.as_str()), "{moves:?}");
            ["success", "completed"].contains(&state.as_str())
        });
    }
}

/// Starts a cluster with atomic slot migration. Returns the slot of `k`, the node that has it, and another node.
fn two_nodes() -> Option<(Cluster, u16, usize, usize)> {
    two_nodes_of(Setup::new())
}

fn two_nodes_of(setup: Setup) -> Option<(Cluster, u16, usize, usize)> {
    let cluster = Cluster::start(setup, false);
    if !cluster.can_move_at_once() {
        return None;
    }
    let (slot, from, to) = cluster.way_of("k");
    Some((cluster, slot, from, to))
}

#[test]
fn a_slot_moves_at_once_with_its_locks_but_not_its_waiters() {
    let Some((cluster, slot, from, to)) = two_nodes() else { return };
    let mut here = cluster.client(from);
    let held = here.acquire("k", "OWNER alice PX 600000").unwrap();
    here.acquire("k", "OWNER alice PX 600000").unwrap();
    here.acquire("{k}named", "OWNER alice MAXHOLD 700000 PX 600000").unwrap();
    here.acquire("{k}uuid", "PX 600000").unwrap();
    here.acquire("{k}ever", "OWNER alice").unwrap();
    here.ask::<()>("PERSIST {k}ever");
    let all = ["k", "{k}named", "{k}uuid", "{k}ever"];
    let digests = |node: usize| {
        all.map(|key| cluster.client(node).ask::<Vec<String>>(&format!("DEBUG DIGEST-VALUE {key}")))
    };
    let ends = |node: usize| all.map(|key| cluster.client(node).ask::<i64>(&format!("PEXPIRETIME {key}")));
    let before = (digests(from), ends(from));
    let mut waiter = Waiter::new(&cluster.nodes[from], "k", "OWNER bob");
    let mut mail = Mailbox::of_shard(&cluster.nodes[from], "{k}");
    cluster.move_at_once(slot, slot, from, to);
    mail.until_ended();
    let moved = format!("MOVED {slot} 127.0.0.1:{}", cluster.nodes[to].port());
    assert_eq!(waiter.client.finish(), Err(moved));
    assert_eq!((digests(to), ends(to)), before);
    let mut there = cluster.client(to);
    let mut next = Waiter::new(&cluster.nodes[to], "k", "OWNER carol");
    assert_eq!(there.ask::<i64>("LOCK.RELEASE k alice ALL"), 0);
    assert!(next.granted().fence > held.fence);
    // Redis deletes the keys a little later.
    wait_for("nothing left", || here.ask::<i64>("DBSIZE") == 0);
}

/// The server would refuse such a fence from a client. In a migration the lock would then be lost, because nobody is told of the error.
#[test]
fn a_lock_moves_at_once_however_far_ahead_its_fence_is() {
    let clock = WallClock::new();
    clock.set(3600);
    let Some((cluster, slot, from, to)) = two_nodes_of(clock.of(Setup::new())) else { return };
    let held = cluster.client(from).acquire("k", "OWNER alice").unwrap();
    cluster.client(from).ask::<()>("PERSIST k");
    clock.set(0);
    cluster.move_at_once(slot, slot, from, to);
    let mut there = cluster.client(to);
    assert_eq!(there.holder("k").map(|holder| holder.fence), Some(held.fence));
    assert!(there.acquire("{k}next", "").unwrap().fence > held.fence);
}

/// The old server keeps sessions alive, but has lost the lock; the new one knows no sessions. So the lock is free when its lease ends,
/// whether or not the connection is open.
#[test]
fn a_session_whose_slot_moves_at_once_lasts_as_long_as_its_lease() {
    let Some((cluster, slot, from, to)) = two_nodes() else { return };
    let (mut open, mut closes) = (cluster.client(from), cluster.client(from));
    open.acquire("k", "OWNER alice SESSION PX 6000").unwrap();
    closes.acquire("{k}closes", "OWNER alice SESSION PX 6000").unwrap();
    let waiter = |node: usize| {
        let words = "LOCK.MACQUIRE 2 k {k}closes OWNER bob BLOCK 0".split_whitespace();
        Waiter::of_words(&cluster.nodes[node], cluster.client(node), words)
    };
    let mut both = waiter(from);
    cluster.move_at_once(slot, slot, from, to);
    assert_eq!(both.client.finish(), Err(format!("MOVED {slot} 127.0.0.1:{}", cluster.nodes[to].port())));
    drop(closes);
    let mut there = cluster.client(to);
    let ends: [i64; 2] = ["k", "{k}closes"].map(|key| there.ask(&format!("PEXPIRETIME {key}")));
    let mut both = waiter(to);
    both.client.finish().unwrap();
    let now = server_time(&mut there);
    assert!(ends.iter().all(|&end| end <= now), "granted at {now}, the leases end at {ends:?}");
    wait_for("the session's end to be known", || open.info("lock", "lock_sessions") == "0");
}

#[test]
fn slots_move_at_once_under_load() {
    let cluster = Cluster::start(Setup::new(), true);
    if !cluster.can_move_at_once() {
        return;
    }
    let load = load(&cluster, Duration::from_secs(10));
    let mut at = cluster.owner_of(0);
    for _ in 0..size(3, 30) {
        wait_for_grants(&cluster, &load.ledger, at);
        let to = (at + 1) % 3;
        cluster.move_at_once(0, SLOTS - 1, at, to);
        cluster.wait_for_agreement();
        assert_eq!(cluster.owner_of(0), to);
        at = to;
        wait_for_grants(&cluster, &load.ledger, at);
    }
    end(load, "slots moved at once under load", true);
}
