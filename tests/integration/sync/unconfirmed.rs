//! What replicas have not confirmed in time is taken back.

use redis::Value;

use super::{NO_REPLICAS, pair, wait_for_syncing};
use crate::support::{HELD_BY_ANOTHER, Mailbox, Server, Waiter, grant, soon, transaction, while_stopped};

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
fn a_grant_is_taken_back_on_the_replica_too() {
    let (_primary, replica, mut client, mut there) = pair();
    let refused = while_stopped(&replica, || client.refused("LOCK.ACQUIRE k OWNER alice SYNC 1 200"));
    assert_eq!(refused, NO_REPLICAS);
    assert!(client.acquire("l", "OWNER bob SYNC 1 60000").is_some());
    assert_eq!((client.holder("k"), there.holder("k")), (None, None));
}

#[test]
fn all_of_several_locks_are_taken_back() {
    let (_server, mut client) = Server::and_client();
    client.acquire("b", "OWNER alice").unwrap();
    assert_eq!(client.refused("LOCK.MACQUIRE 3 a b c OWNER alice SYNC 1 50"), NO_REPLICAS);
    let holds = ["a", "b", "c"].map(|key| client.holder(key).map(|held| held.holds));
    assert_eq!(holds, [None, Some(1), None]);
}

#[test]
fn a_re_entry_goes_back_by_one_hold_and_one_with_once_by_none() {
    let (_server, mut client) = Server::and_client();
    let first = client.acquire("k", "OWNER alice PX 60000").unwrap();
    assert_eq!(client.refused("LOCK.ACQUIRE k OWNER alice PX 90000 SYNC 1 50"), NO_REPLICAS);
    let held = client.holder("k").unwrap();
    assert_eq!((held.fence, held.holds), (first.fence, 1));
    assert!(held.lease > 80_000, "the longer lease stays: {held:?}");
    assert_eq!(client.refused("LOCK.ACQUIRE k OWNER alice ONCE SYNC 1 50"), NO_REPLICAS);
    assert_eq!(client.holder("k").unwrap().holds, 1);
}

#[test]
fn the_smaller_room_of_an_upgrade_stays() {
    let (_server, mut client) = Server::and_client();
    let first = client.acquire("k", "OWNER alice SHARED").unwrap();
    assert_eq!(client.refused("LOCK.ACQUIRE k OWNER alice SYNC 1 50"), NO_REPLICAS);
    let held = client.holder("k").unwrap();
    assert_eq!((held.fence, held.holds), (first.fence, 1));
    assert!(client.acquire("k", "OWNER bob SHARED").is_none(), "it is a writer's: {held:?}");
}

#[test]
fn an_extension_stays() {
    let (_server, mut client) = Server::and_client();
    client.acquire("k", "OWNER alice PX 5000").unwrap();
    let refused = client.refused("LOCK.EXTEND k alice PX 60000 SYNC 1 50");
    assert_eq!(refused, "NOREPLICAS too few replicas confirmed the extension in time");
    assert!(client.holder("k").unwrap().lease > 50_000);
    assert_eq!(client.refused("LOCK.EXTEND k bob PX 60000 SYNC 1 50"), HELD_BY_ANOTHER);
}

/// No longer than the lease lasts.
#[test]
fn who_waits_for_replicas_waits_no_longer_than_its_lease() {
    let (_server, mut client) = Server::and_client();
    let began = std::time::Instant::now();
    assert_eq!(client.refused("LOCK.ACQUIRE k OWNER alice PX 200 SYNC 1 60000"), NO_REPLICAS);
    assert!(began.elapsed().as_secs() < 30);
    assert_eq!(client.holder("k"), None);
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

/// Its hold is taken back, but not the one that its owner has got by another connection meanwhile.
#[test]
fn an_owner_that_asks_twice_keeps_what_it_was_told_of() {
    let (server, mut client) = Server::and_client();
    let mut first = Waiter::new(&server, "k", "OWNER alice SYNC 1 3000");
    wait_for_syncing(&mut client, 1);
    let second = client.acquire("k", "OWNER alice").unwrap();
    assert_eq!(second.holds, 2);
    assert_eq!(first.client.finish(), Err(NO_REPLICAS.into()));
    let held = client.holder("k").unwrap();
    assert_eq!((held.fence, held.holds), (second.fence, 1));
}

/// Its hold goes with it, so a release in the same turn of the server does not count this hold.
#[test]
fn killed_before_its_re_entry_was_confirmed() {
    let (server, mut client) = Server::held();
    let mut other = server.client();
    let id: i64 = other.ask("CLIENT ID");
    other.begin("LOCK.ACQUIRE k OWNER alice SYNC 1 600000");
    wait_for_syncing(&mut client, 1);
    let replies = transaction(&mut client, &[&format!("CLIENT KILL ID {id}"), "LOCK.RELEASE k alice"]);
    assert_eq!(replies, [Ok(Value::Int(1)), Ok(Value::Int(0))]);
    assert_eq!(client.holder("k"), None);
}
