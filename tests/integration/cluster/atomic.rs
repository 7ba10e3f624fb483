//! Slots that move in one step, as Valkey 9 can do it.

use std::collections::HashMap;
use std::time::Duration;

use redis::Value;

use super::nodes::Cluster;
use super::under_load::{SLOTS, end, load, wait_for_grants};
use crate::support::{Setup, Waiter, size, wait_for};

impl Cluster {
    /// Whether these servers can do it; says so where not.
    fn can_move_at_once(&self) -> bool {
        let can = self.client(0).send("CLUSTER GETSLOTMIGRATIONS").is_ok();
        if !can {
            println!("this server moves no slots at once");
        }
        can
    }

    /// Moves slots, and waits until that is done.
    fn move_at_once(&self, first: u16, last: u16, from: usize, to: usize) {
        let mut client = self.client(from);
        client.ask::<()>(&format!("CLUSTER MIGRATESLOTS SLOTSRANGE {first} {last} NODE {}", self.id(to)));
        wait_for("the slots to move", || {
            let jobs: Vec<HashMap<String, Value>> = client.ask("CLUSTER GETSLOTMIGRATIONS");
            let state: String = redis::from_redis_value(jobs[0]["state"].clone()).unwrap();
            assert!(!["failed", "cancelled"].contains(&state.as_str()), "{jobs:?}");
            state == "success"
        });
    }
}

#[test]
fn a_slot_moves_at_once_with_its_locks_but_not_its_waiters() {
    let cluster = Cluster::start(Setup::new(), false);
    if !cluster.can_move_at_once() {
        return;
    }
    let slot: u16 = cluster.client(0).ask("CLUSTER KEYSLOT k");
    let from = cluster.owner_of(slot);
    let to = (from + 1) % 3;
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
    cluster.move_at_once(slot, slot, from, to);
    let moved = format!("MOVED {slot} 127.0.0.1:{}", cluster.nodes[to].port());
    assert_eq!(waiter.client.finish(), Err(moved));
    assert_eq!((digests(to), ends(to)), before);
    let mut there = cluster.client(to);
    let mut next = Waiter::new(&cluster.nodes[to], "k", "OWNER carol");
    assert_eq!(there.ask::<i64>("LOCK.RELEASE k alice ALL"), 0);
    assert!(next.granted().fence > held.fence);
    assert_eq!(here.ask::<i64>("DBSIZE"), 0);
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
