//! `DETECT` in a cluster: among the locks of a slot. Of other slots, most servers show a running command nothing.

use super::nodes::Cluster;
use crate::support::{Setup, Waiter};

#[test]
fn a_circle_within_a_slot_is_told() {
    let cluster = Cluster::start(Setup::new(), false);
    let slot = cluster.client(0).ask::<u16>("CLUSTER KEYSLOT {tag}");
    let at = cluster.owner_of(slot);
    let mut client = cluster.client(at);
    client.acquire("{tag}a", "OWNER a PX 600000").unwrap();
    client.acquire("{tag}b", "OWNER b PX 600000").unwrap();
    let _a = Waiter::of(&cluster.nodes[at], cluster.client(at), "{tag}b", "OWNER a PX 600000 DETECT");
    let circle = r#"b waits for "{tag}a" held by a, a waits for "{tag}b" held by b"#;
    assert_eq!(
        client.refused("LOCK.ACQUIRE {tag}a OWNER b BLOCK 0 DETECT"),
        format!("DEADLOCK this wait would never end: {circle}")
    );
}
