//! Waiting without a connection in a cluster.

use redis::Value;

use super::nodes::Cluster;
use crate::support::{Client, Mailbox, Setup, soon};

#[track_caller]
fn queue_up(client: &mut Client, owner: &str) {
    let asked = client.send(&format!("LOCK.ACQUIRE k OWNER {owner} ONCE BLOCK 60000 NOTIFY ch WANTED"));
    assert_eq!(asked, Ok(Value::SimpleString("QUEUED".into())));
}

#[test]
fn in_a_cluster_the_message_goes_to_every_node_and_a_moved_slot_sends_places_away() {
    let cluster = Cluster::start(Setup::new(), false);
    let (slot, from, to) = cluster.way_of("k");
    let mut client = cluster.client(from);
    // At another node than the lock's.
    let mut mail = Mailbox::of(&cluster.nodes[to], "ch");
    client.acquire("k", "OWNER alice PX 60000").unwrap();
    queue_up(&mut client, "bob");
    client.ask::<()>("LOCK.RELEASE k alice");
    let fence = client.holder("k").unwrap().fence;
    assert_eq!(mail.next(), format!("granted {fence} bob"));
    client.acquire("k", "OWNER bob ONCE PX 60000").unwrap();
    queue_up(&mut client, "carol");
    assert_eq!(mail.next(), format!("wanted {fence} bob"));
    cluster.begin_move(slot, from, to);
    cluster.move_key("k", from, to);
    cluster.end_move(slot, from, to);
    let mut told = [mail.next(), mail.next()];
    told.sort();
    assert_eq!(told, ["gone bob", "gone carol"]);
    let asked = client.refused("LOCK.ACQUIRE k OWNER carol BLOCK 0 NOTIFY ch");
    assert!(asked.starts_with("MOVED "), "{asked}");
    let mut there = cluster.client(to);
    soon("the lock there", || there.send("LOCK.INFO k").is_ok_and(|reply| reply != Value::Nil));
    queue_up(&mut there, "carol");
    there.ask::<()>("LOCK.RELEASE k bob");
    assert!(mail.next().starts_with("granted "));
}
