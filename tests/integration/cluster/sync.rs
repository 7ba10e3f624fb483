//! A slot moves while a replica still has to confirm a grant in it (`SYNC`).

use redis::Value;

use super::nodes::Cluster;
use crate::support::{Setup, Waiter, freeze, wait_for, wake};

/// Alice asks for `k` while the node's replica stands still. Then the slot moves. The replica continues before the move (`wakes`) or
/// afterwards. Returns alice's answer. A grant of which she was not told must end with its lease at the latest.
fn answer_where_it_moves(wakes: bool) -> Result<Value, String> {
    let cluster = Cluster::start(Setup::new(), true);
    let (slot, from, to) = cluster.way_of("k");
    let replica = cluster.replica_of(from);
    let (mut here, mut there) = (cluster.client(from), cluster.client(to));
    // While a slot moves, its old node serves the keys that are still there.
    let first = "LOCK.ACQUIRE k OWNER first ONCE SHARED PX 60000 SYNC 1 1000";
    wait_for("a replica that confirms", || here.send(first).is_ok());
    cluster.begin_move(slot, from, to);

    freeze(&cluster.nodes[replica]);
    let line = "LOCK.ACQUIRE k OWNER alice SHARED PX 6000 SYNC 1 5000";
    let mut alice = Waiter::of_words(&cluster.nodes[from], cluster.client(from), line.split_whitespace());
    cluster.move_key("k", from, to);
    if wakes {
        wake(&cluster.nodes[replica]);
    }
    let end = format!("CLUSTER SETSLOT {slot} NODE {}", cluster.id(to));
    there.ask::<()>(&end);
    // Some servers refuse this without a replica. Then the node learns of the move from the other nodes.
    here.send(&end).ok();
    assert_eq!(there.holding("k"), ["first", "alice"]);
    let answer = alice.client.finish();
    wake(&cluster.nodes[replica]);
    wait_for("the end of the grant", || there.holding("k") == ["first"]);
    answer
}

/// Tests both a replica that still has to confirm the grant, and one that has it and then loses it with the slot.
#[test]
fn a_grant_is_not_told_where_its_slot_moves() {
    for wakes in [false, true] {
        match answer_where_it_moves(wakes) {
            Ok(reply) => assert_eq!((wakes, reply), (true, Value::Nil)),
            Err(error) => {
                assert!(error.starts_with("MOVED ") || error.starts_with("NOREPLICAS "), "{error}");
            }
        }
    }
}
