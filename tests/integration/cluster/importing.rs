//! Sessions on the node that imports a slot, where clients use `ASKING`.

use redis::{Value, from_redis_value};

use super::nodes::Cluster;
use super::slots::{asking, asking_waiter};
use crate::support::{Client, Setup, Waiter, all_along, grant, soon, wait_for, wait_until_gone};

/// Returns what the importing node shows of `k`: the fence of the grant, and whether it has a session.
fn shown(client: &mut Client) -> Option<(i64, bool)> {
    let info: Option<std::collections::HashMap<String, String>> =
        from_redis_value(asking(client, "LOCK.INFO k").unwrap()).unwrap();
    info.map(|info| (info["fence"].parse().unwrap(), info["session"] == "1"))
}

/// Checks that the grant lasts for longer than its lease.
#[track_caller]
fn is_kept(client: &mut Client, fence: i64, when: &str) {
    all_along(client, 3500, |client| {
        assert_eq!(shown(client), Some((fence, true)), "{when}");
    });
}

/// Begins to move the slot of `k`. Returns the slot, the old node and the new node.
fn moving(cluster: &Cluster) -> (u16, usize, usize) {
    let (slot, from, to) = cluster.way_of("k");
    cluster.begin_move(slot, from, to);
    (slot, from, to)
}

#[test]
fn a_session_is_renewed_while_the_slot_is_on_its_way_and_when_it_has_come() {
    let cluster = Cluster::start(Setup::new(), false);
    let (slot, from, to) = moving(&cluster);
    let (mut alice, mut there) = (cluster.client(to), cluster.client(to));
    let first = grant(asking(&mut alice, "LOCK.ACQUIRE k OWNER alice PX 1500 SESSION").unwrap()).unwrap();
    is_kept(&mut there, first.fence, "while the slot is imported");
    cluster.end_move(slot, from, to);
    is_kept(&mut there, first.fence, "when the slot has come");
    let mut bob = Waiter::new(&cluster.nodes[to], "k", "OWNER bob");
    drop(alice);
    assert!(bob.granted().fence > first.fence);
}

#[test]
fn a_waiters_session_is_renewed_while_the_slot_is_on_its_way() {
    let cluster = Cluster::start(Setup::new(), false);
    let (slot, from, to) = moving(&cluster);
    let mut there = cluster.client(to);
    asking(&mut there, "LOCK.ACQUIRE k OWNER alice PX 600000").unwrap();
    let mut bob = asking_waiter(&cluster.nodes[to], "LOCK.ACQUIRE k OWNER bob PX 1500 SESSION BLOCK 0");
    assert_eq!(asking(&mut there, "LOCK.RELEASE k alice"), Ok(Value::Int(0)));
    let granted = bob.granted();
    is_kept(&mut there, granted.fence, "while the slot is imported");
    cluster.end_move(slot, from, to);
    is_kept(&mut there, granted.fence, "when the slot has come");
    drop(bob);
    soon("a free lock", || there.holder("k").is_none());
}

#[test]
fn a_connection_that_closes_while_the_slot_is_on_its_way_releases_its_lock() {
    let cluster = Cluster::start(Setup::new(), false);
    let (slot, from, to) = moving(&cluster);
    let (mut alice, mut there) = (cluster.client(to), cluster.client(to));
    let id = alice.ask("CLIENT ID");
    let first = grant(asking(&mut alice, "LOCK.ACQUIRE k OWNER alice PX 600000 SESSION").unwrap()).unwrap();
    let mut bob = asking_waiter(&cluster.nodes[to], "LOCK.ACQUIRE k OWNER bob PX 600000 BLOCK 0");
    drop(alice);
    wait_until_gone(&mut there, id);
    // The handover may be delayed until the move ends: before that, the server lets only clients write to this slot.
    cluster.end_move(slot, from, to);
    assert!(bob.granted().fence > first.fence);
}

/// The slot is never moved here: the session of a grant that was made here must not last for ever.
#[test]
fn a_session_ends_where_the_slot_does_not_come() {
    let cluster = Cluster::start(Setup::new(), false);
    let (slot, from, to) = moving(&cluster);
    let (mut alice, mut there) = (cluster.client(to), cluster.client(to));
    asking(&mut alice, "LOCK.ACQUIRE k OWNER alice PX 1500 SESSION").unwrap();
    for node in [from, to] {
        cluster.client(node).ask::<()>(&format!("CLUSTER SETSLOT {slot} STABLE"));
    }
    wait_for("the end of the session", || there.info("lock", "lock_sessions") == "0");
}
