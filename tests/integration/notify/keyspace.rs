//! Places, when the lock's key is replaced or the server's role changes.

use super::queue_up;
use crate::support::{Mailbox, SOON, Server, Stopwatch, lease_end_after, owners, wait_for};

#[test]
fn a_key_that_holds_something_else_sends_places_away() {
    let (_server, mut client, mut mail) = super::held("");
    queue_up(&mut client, "bob", "");
    queue_up(&mut client, "carol", "");
    client.ask::<()>("SET k something");
    assert_eq!([mail.next(), mail.next()], ["gone bob", "gone carol"]);
    let asked = client.refused("LOCK.ACQUIRE k OWNER bob ONCE BLOCK 100 NOTIFY ch");
    assert!(asked.starts_with("WRONGTYPE"), "{asked}");
    assert!(client.refused("LOCK.LEAVE k bob").starts_with("WRONGTYPE"));
    assert_eq!(client.info("lock", "lock_places"), "0");
}

#[test]
fn in_a_grace_places_wait_for_its_end() {
    let (_server, mut client, mut mail) = super::heard("failover-grace 4000 max-lease 1000");
    queue_up(&mut client, "bob", "PX 1000");
    assert_eq!(client.holder("k"), None);
    assert!(mail.next().starts_with("granted "));
}

#[test]
fn a_server_that_refuses_writes_serves_places_later() {
    let (_server, mut client, mut mail) = super::held("");
    queue_up(&mut client, "bob", "");
    let lines = ["LOCK.EXTEND k alice PX 300", "CONFIG SET min-replicas-to-write 1"];
    lease_end_after(&mut client, "k", &lines);
    wait_for("the lapse", || client.holder("k").is_none());
    assert!(client.refused("LOCK.LEAVE k bob").starts_with("NOREPLICAS"));
    client.ask::<()>("CONFIG SET min-replicas-to-write 0");
    assert!(mail.next().starts_with("granted "));
    assert!(owners(&mut client, "k").is_empty());
}

#[test]
fn a_demotion_sends_places_and_holders_away() {
    let (server, primary) = (Server::start(), Server::start());
    let (mut client, mut mail) = (server.client(), Mailbox::of(&server, "ch"));
    super::ask(&mut client, "alice", "PX 60000 WANTED");
    queue_up(&mut client, "bob", "");
    assert!(mail.next().starts_with("wanted "));
    let watch = Stopwatch::start();
    client.ask::<()>(&format!("REPLICAOF 127.0.0.1 {}", primary.port()));
    assert_eq!([mail.next(), mail.next()], ["gone bob", "gone alice"]);
    assert!(watch.worked() < SOON, "told after {:?}", watch.worked());
    assert_eq!(client.info("lock", "lock_places"), "0");
}
