//! A slot that moves with a lock of a hundred grants in it.

use super::nodes::Cluster;
use super::slots::asking;
use crate::shared::hundred::{assert_same_but_for, kept, take, works};
use crate::support::{PATIENCE, Setup, Waiter};

#[test]
fn a_hundred_grants_move_with_their_slot() {
    let cluster = Cluster::start(Setup::new(), false);
    let (slot, from, to) = cluster.way_of("k");
    let (mut here, mut there) = (cluster.client(from), cluster.client(to));
    take(&mut here, "k");
    let mut before = kept(&mut here, "k");
    let mut writer = Waiter::new(&cluster.nodes[from], "k", "OWNER w");
    let mut reader = Waiter::new(&cluster.nodes[from], "k", "OWNER r SHARED");
    cluster.begin_move(slot, from, to);
    cluster.move_key("k", from, to);
    // One of them asks there while the slot is on its way.
    let line = format!("LOCK.EXTEND k {} PX 1000000", before[2].holder.owner);
    assert_eq!(asking(&mut there, &line), Ok(redis::Value::Int(1_000_000)));
    assert_eq!(asking(&mut there, "LOCK.ACQUIRE k OWNER w"), Ok(redis::Value::Nil));
    cluster.end_move(slot, from, to);
    let moved = format!("MOVED {slot} 127.0.0.1:{}", cluster.nodes[to].port());
    for waiter in [&mut writer, &mut reader] {
        assert_eq!(waiter.client.finish(), Err(moved.clone()));
    }
    let mut after = kept(&mut there, "k");
    assert!(after.remove(2).holder.lease > 900_000);
    before.remove(2);
    // The server says what is left of the TTL, not when it ends: all end later by the time on the way.
    assert_same_but_for(&after, &before, PATIENCE.as_millis() as i64);
    works(&mut there, "k");
}
