//! `DETECT` over several slots of one server.

use super::nodes::Cluster;
use crate::support::{Setup, Waiter};

#[test]
fn a_circle_over_two_slots_of_a_server_is_told() {
    let cluster = Cluster::start(Setup::new(), false);
    let mut any = cluster.client(0);
    let mut slot_of = |key: &str| any.ask::<u16>(&format!("CLUSTER KEYSLOT {key}"));
    let slots: Vec<(String, u16)> =
        (0..20).map(|number| format!("k{number}")).map(|key| (key.clone(), slot_of(&key))).collect();
    let (mine, at) = (&slots[0].0, cluster.owner_of(slots[0].1));
    let other = slots.iter().find(|(_, slot)| *slot != slots[0].1 && cluster.owner_of(*slot) == at);
    let other = &other.expect("a key of another slot there").0;
    let mut client = cluster.client(at);
    client.acquire(mine, "OWNER a PX 600000").unwrap();
    client.acquire(other, "OWNER b PX 600000").unwrap();
    let _a = Waiter::of(&cluster.nodes[at], cluster.client(at), other, "OWNER a PX 600000 DETECT");
    assert_eq!(
        client.refused(&format!("LOCK.ACQUIRE {mine} OWNER b BLOCK 0 DETECT NOTIFY c")),
        format!(
            "DEADLOCK this wait would never end: b waits for \"{mine}\" held by a, a waits for \"{other}\" held by b"
        )
    );
}
