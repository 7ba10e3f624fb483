//! What replicas have not confirmed in time is taken back.

use redis::Value;

use super::{NO_REPLICAS, pair, wait_for_syncing};
use crate::support::{Mailbox, Server, Waiter, freeze, grant, queue, soon, wake, while_stopped};

#[test]
fn a_grant_is_taken_back_where_there_is_no_replica() {
    let server = Server::start();
    let mut client = server.client();
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
    let server = Server::start();
    let mut client = server.client();
    client.acquire("b", "OWNER alice").unwrap();
    assert_eq!(client.refused("LOCK.MACQUIRE 3 a b c OWNER alice SYNC 1 50"), NO_REPLICAS);
    let holds = ["a", "b", "c"].map(|key| client.holder(key).map(|held| held.holds));
    assert_eq!(holds, [None, Some(1), None]);
}

#[test]
fn a_re_entry_goes_back_by_one_hold_and_one_with_once_by_none() {
    let server = Server::start();
    let mut client = server.client();
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
    let server = Server::start();
    let mut client = server.client();
    let first = client.acquire("k", "OWNER alice SHARED").unwrap();
    assert_eq!(client.refused("LOCK.ACQUIRE k OWNER alice SYNC 1 50"), NO_REPLICAS);
    let held = client.holder("k").unwrap();
    assert_eq!((held.fence, held.holds), (first.fence, 1));
    assert!(client.acquire("k", "OWNER bob SHARED").is_none(), "it is a writer's: {held:?}");
}

#[test]
fn an_extension_stays() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire("k", "OWNER alice PX 5000").unwrap();
    let refused = client.refused("LOCK.EXTEND k alice PX 60000 SYNC 1 50");
    assert_eq!(refused, "NOREPLICAS too few replicas confirmed the extension in time");
    assert!(client.holder("k").unwrap().lease > 50_000);
    assert_eq!(
        client.refused("LOCK.EXTEND k bob PX 60000 SYNC 1 50"),
        "NOTHELD the lock is not held by this owner"
    );
}

#[test]
fn the_next_waiter_gets_what_is_taken_back() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire("k", "OWNER alice").unwrap();
    let mut bob = Waiter::new(&server, "k", "OWNER bob BLOCK 0 SYNC 1 1500");
    soon("bob waits", || queue(&mut client, "k").len() == 1);
    let mut carol = Waiter::new(&server, "k", "OWNER carol BLOCK 0");
    soon("carol waits", || queue(&mut client, "k").len() == 2);
    client.ask::<()>("LOCK.RELEASE k alice");
    assert_eq!(client.holder("k").unwrap().owner, "bob");
    assert_eq!(bob.client.finish(), Err(NO_REPLICAS.into()));
    assert_eq!(carol.granted().owner, "carol");
}

/// No longer than the lease lasts.
#[test]
fn who_waits_for_replicas_waits_no_longer_than_its_lease() {
    let server = Server::start();
    let mut client = server.client();
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

#[test]
fn a_claim_that_is_not_confirmed_is_given_up_by_leave() {
    let (primary, replica, mut client, _) = pair();
    let mut mail = Mailbox::of(&primary, "ch");
    client.acquire("k", "OWNER alice").unwrap();
    let words = "LOCK.ACQUIRE k OWNER bob PX 60000 BLOCK 60000 NOTIFY ch ONCE SYNC 1 200";
    assert_eq!(client.ask::<String>(words), "QUEUED");
    client.ask::<()>("LOCK.RELEASE k alice");
    assert!(mail.next().starts_with("granted"));
    freeze(&replica);
    assert_eq!(client.refused(words), NO_REPLICAS);
    assert_eq!(client.ask::<i64>("LOCK.LEAVE k bob"), 1);
    assert_eq!(client.holder("k"), None);
    wake(&replica);
}

/// Its hold is taken back, but not the one that its owner has got by another connection meanwhile.
#[test]
fn an_owner_that_asks_twice_keeps_what_it_was_told_of() {
    let server = Server::start();
    let mut client = server.client();
    let mut first = Waiter::new(&server, "k", "OWNER alice SYNC 1 1500");
    wait_for_syncing(&mut client, 1);
    let second = client.acquire("k", "OWNER alice").unwrap();
    assert_eq!(second.holds, 2);
    assert_eq!(first.client.finish(), Err(NO_REPLICAS.into()));
    let held = client.holder("k").unwrap();
    assert_eq!((held.fence, held.holds), (second.fence, 1));
}

/// The owner asks for its grant back while the first acquire is not confirmed: the hold is the second acquire's then.
#[test]
fn an_owner_that_asks_for_it_back_keeps_it() {
    let server = Server::start();
    let mut client = server.client();
    let mut first = Waiter::new(&server, "k", "OWNER alice SYNC 1 1500");
    wait_for_syncing(&mut client, 1);
    let second = client.acquire("k", "OWNER alice ONCE").unwrap();
    assert_eq!(second.holds, 1);
    assert_eq!(first.client.finish(), Err(NO_REPLICAS.into()));
    assert_eq!(client.holder("k").map(|held| held.holds), Some(1));
}

/// A client that was told of the hold of another keeps it, however the other's acquire ends.
#[test]
fn a_hold_that_was_confirmed_to_one_is_not_taken_back_with_the_other() {
    let (primary, _replica, mut client, _) = pair();
    let mut both = Waiter::new(&primary, "k", "OWNER alice ONCE SYNC 2 1500");
    wait_for_syncing(&mut client, 1);
    let told = client.acquire("k", "OWNER alice ONCE SYNC 1 60000").unwrap();
    assert_eq!(told.holds, 1);
    assert_eq!(both.client.finish(), Err(NO_REPLICAS.into()));
    assert_eq!(client.holder("k").map(|held| (held.fence, held.holds)), Some((told.fence, 1)));
}

/// A watchdog that extends knows of what it was told of, and not of the hold that is still to be confirmed.
#[test]
fn an_extension_meanwhile_keeps_no_hold_that_is_taken_back() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire("k", "OWNER alice").unwrap();
    let mut again = Waiter::new(&server, "k", "OWNER alice SYNC 1 1500");
    wait_for_syncing(&mut client, 1);
    client.ask::<i64>("LOCK.EXTEND k alice PX 60000");
    assert_eq!(again.client.finish(), Err(NO_REPLICAS.into()));
    assert_eq!(client.holder("k").map(|held| held.holds), Some(1));
}
