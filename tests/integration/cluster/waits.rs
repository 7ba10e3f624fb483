//! `LOCK.WAITS`: each node shows its own waiters; a key redirects to the node that has it.

use redis::Value;

use super::nodes::Cluster;
use crate::support::{Client, Setup};

/// Returns how many waits are shown.
fn count(client: &mut Client, words: &str) -> usize {
    let (cursor, waits): (String, Vec<Value>) = client.ask(&format!("LOCK.WAITS {words}"));
    assert_eq!(cursor, "0");
    waits.len()
}

#[test]
fn a_key_is_redirected_and_no_key_is_not() {
    let cluster = Cluster::start(Setup::new(), false);
    let slot: u16 = cluster.client(0).ask("CLUSTER KEYSLOT k");
    let node = cluster.owner_of(slot);
    let (mut here, mut there) = (cluster.client(node), cluster.client((node + 1) % 3));
    here.acquire("k", "OWNER alice PX 600000").unwrap();
    here.ask::<String>("LOCK.ACQUIRE k OWNER bob BLOCK 60000 NOTIFY ch");
    let moved = format!("MOVED {slot} 127.0.0.1:{}", cluster.nodes[node].port());
    for words in ["KEY k", "COUNT 3 KEY k"] {
        assert_eq!(there.refused(&format!("LOCK.WAITS {words}")), moved);
    }
    assert_eq!(count(&mut there, ""), 0);
    assert_eq!([count(&mut here, ""), count(&mut here, "KEY k")], [1, 1]);
}
