//! Grants that replicas have not confirmed in time are taken back.

use redis::Value;

use super::{NO_REPLICAS, pair};
use crate::support::{Mailbox, Server, grant, soon, while_stopped};

#[test]
fn a_grant_is_taken_back_where_there_is_no_replica() {
    let (_server, mut client) = Server::and_client();
    let began = std::time::Instant::now();
    assert_eq!(client.refused("LOCK.ACQUIRE k OWNER alice SYNC 1 200"), NO_REPLICAS);
    assert!(began.elapsed().as_millis() >= 200, "not before its time");
    assert_eq!(client.holder("k"), None);
    assert_eq!(client.info("lock", "lock_syncs_failed"), "1");
    assert_eq!(client.info("lock", "lock_syncs"), "0");
    assert_eq!(client.info("lock", "lock_syncing"), "0");
    assert!(client.acquire("k", "OWNER bob").is_some());
}

#[test]
fn a_claim_that_is_not_confirmed_can_be_made_again_or_given_up() {
    let (primary, replica, mut client, mut there) = pair();
    let mut mail = Mailbox::of(&primary, "ch");
    client.acquire("k", "OWNER alice").unwrap();
    let words = "LOCK.ACQUIRE k OWNER bob PX 60000 BLOCK 60000 NOTIFY ch ONCE SYNC 1";
    assert_eq!(client.ask::<String>(&format!("{words} 200")), "QUEUED");
    client.ask::<()>("LOCK.RELEASE k alice");
    let fence = client.holder("k").unwrap().fence;
    assert_eq!(mail.next(), format!("granted {fence} bob"));
    let refused = while_stopped(&replica, || client.refused(&format!("{words} 200")));
    assert_eq!(refused, NO_REPLICAS);
    assert_eq!(client.info("lock", "lock_places"), "1", "still to be claimed");
    let told = grant(client.ask::<Value>(&format!("{words} 60000"))).unwrap();
    assert_eq!((told.fence, told.holds), (fence, 1));
    assert_eq!(there.holder("k").unwrap().fence, fence);
    soon("it is claimed", || client.info("lock", "lock_places") == "0");
}
