//! Servers that are demoted.

use super::queue_up;
use crate::support::{Mailbox, SOON, Server, Stopwatch};

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
