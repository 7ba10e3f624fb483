//! Servers that are demoted.

use super::queue_up;
use crate::support::{Mailbox, SOON, Server, Stopwatch, all_along};

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

/// What was told and not claimed is the next primary's: nothing of it is taken back here when this server is a primary again.
#[test]
fn a_demotion_forgets_what_was_to_be_claimed() {
    let (_server, mut client, mut mail) = super::held("claim 1500");
    queue_up(&mut client, "bob", "PX 60000");
    client.ask::<()>("LOCK.RELEASE k alice");
    assert!(mail.next().starts_with("granted "));
    client.ask::<()>("LOCK.ACQUIRE k OWNER bob PX 60000");
    // A port on which nobody is: it stays with its data, and becomes a primary again.
    client.ask::<()>("REPLICAOF 127.0.0.1 1");
    assert_eq!(mail.next(), "gone bob");
    client.ask::<()>("REPLICAOF NO ONE");
    let holds = client.holder("k").unwrap().holds;
    all_along(&mut client, 1700, |client| assert_eq!(client.holder("k").unwrap().holds, holds));
}
