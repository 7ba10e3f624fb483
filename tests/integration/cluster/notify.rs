//! Waiting without a connection in a cluster.

use redis::Value;

use super::nodes::Cluster;
use crate::support::{Client, Mailbox, Setup, soon, wait_for};

#[track_caller]
fn queue_up_at(client: &mut Client, key: &str, owner: &str, channel: &str) {
    let line = format!("LOCK.ACQUIRE {key} OWNER {owner} ONCE BLOCK 60000 NOTIFY {channel} WANTED");
    assert_eq!(client.send(&line), Ok(Value::SimpleString("QUEUED".into())));
}

#[track_caller]
fn queue_up(client: &mut Client, owner: &str) {
    queue_up_at(client, "k", owner, "ch");
}

#[test]
fn if_nobody_of_the_shard_listens_the_message_goes_to_every_node_and_a_moved_slot_sends_places_away() {
    let cluster = Cluster::start(Setup::new(), false);
    let (slot, from, to) = cluster.way_of("k");
    let mut client = cluster.client(from);
    // The subscriber is at another node than the lock.
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

#[test]
fn a_message_stays_in_the_shard_if_somebody_listens_there() {
    let cluster = Cluster::start(Setup::new(), true);
    let (_, from, to) = cluster.way_of("k");
    let channel = cluster.channel_of(from);
    let mut client = cluster.client(from);
    let mail = Mailbox::of_shard(&cluster.nodes[from], &channel);
    let replica = Mailbox::of_shard(&cluster.nodes[cluster.replica_of(from)], &channel);
    let mut elsewhere = Mailbox::of(&cluster.nodes[to], &channel);
    let fence = client.acquire("k", &format!("OWNER alice ONCE NOTIFY {channel} WANTED")).unwrap().fence;
    queue_up_at(&mut client, "k", "bob", &channel);
    client.ask::<()>("LOCK.RELEASE k alice");
    let given = client.acquire("k", &format!("OWNER bob ONCE NOTIFY {channel}")).unwrap().fence;
    client.ask::<()>("LOCK.BREAK k");
    let all = [format!("wanted {fence} alice"), format!("granted {given} bob"), format!("lost {given} bob")];
    let [mail, mut replica] = [mail, replica].map(|mut mail| {
        assert_eq!([mail.next(), mail.next(), mail.next()], all);
        mail
    });
    // Each message was sent once, to the node's replica.
    assert_eq!(["publish", "publishshard"].map(|kind| cluster.bus_messages(kind)), [0, 3]);

    // A primary does not know who listens at its replicas, so it can't count them.
    drop(mail);
    wait_for("the subscription to end", || {
        client.ask::<(String, i64)>(&format!("PUBSUB SHARDNUMSUB {channel}")).1 == 0
    });
    client.acquire("k", &format!("OWNER alice NOTIFY {channel} ONCE")).unwrap();
    client.ask::<()>("LOCK.BREAK k");
    for mail in [&mut replica, &mut elsewhere] {
        assert!(mail.next().starts_with("lost "));
    }
    assert_eq!(["publish", "publishshard"].map(|kind| cluster.bus_messages(kind)), [5, 4]);
}
