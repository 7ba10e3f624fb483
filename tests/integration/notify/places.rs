//! A place in the queue: taken, kept, given up.

use std::time::{Duration, Instant};

use redis::Value;

use super::queue_up;
use crate::support::{Mailbox, Server, Waiter, all_along, owners, queue, soon, transaction, wait_for};

#[test]
fn both_kinds_of_waiters_are_served_as_they_came() {
    let (server, mut client, mut mail) = super::heard("");
    let first = client.acquire("k", "OWNER alice").unwrap();
    queue_up(&mut client, "bob", "PX 60000");
    let mut carol = Waiter::new(&server, "k", "OWNER carol");
    queue_up(&mut client, "dave", "PX 60000");
    client.ask::<()>("LOCK.RELEASE k alice");
    let bob = client.holder("k").unwrap();
    assert_eq!(&bob.owner, "bob");
    assert!(bob.fence > first.fence);
    assert_eq!(mail.next(), format!("granted {} bob", bob.fence));
    client.ask::<()>("LOCK.RELEASE k bob");
    let granted = carol.granted();
    assert!(granted.fence > bob.fence);
    client.ask::<()>("LOCK.RELEASE k carol");
    let dave = client.holder("k").unwrap();
    assert_eq!(mail.next(), format!("granted {} dave", dave.fence));
    assert!(mail.rest(&mut client).is_empty());
}

/// It hears that it has to ask again, and of no loss: it did not know of its grant.
#[test]
fn gone_if_its_grant_ends_before_it_is_told() {
    for start in ["ONCE", "ONCE START 1"] {
        for line in
            ["LOCK.BREAK k", "DEL k", "FLUSHDB", "RENAME k r", "MOVE k 1", "SWAPDB 0 1", "PEXPIRE k 0"]
        {
            let (_server, mut client, mut mail) = super::held("");
            let ask = format!("LOCK.ACQUIRE k OWNER bob PX 60000 BLOCK 0 NOTIFY ch {start}");
            assert_eq!(client.send(&ask), Ok(Value::SimpleString("QUEUED".into())));
            transaction(&mut client, &["LOCK.RELEASE k alice", line]);
            assert_eq!(mail.next(), "gone bob", "{line}, {start}");
            wait_for(&format!("the end of bob's grant ({line}, {start})"), || {
                ["db0", "db1"].iter().all(|db| client.info("keyspace", db).is_empty())
            });
            assert!(mail.rest(&mut client).is_empty(), "{line}, {start}");
        }
    }
}

#[test]
fn asking_again_keeps_the_place_with_new_terms() {
    let (server, [mut client, mut other]) = Server::and_clients();
    let mut mail = Mailbox::of(&server, "elsewhere");
    client.acquire("k", "OWNER alice").unwrap();
    queue_up(&mut client, "bob", "BLOCK 1000");
    queue_up(&mut client, "carol", "");
    let id: i64 = other.ask("CLIENT ID");
    let again = "LOCK.ACQUIRE k OWNER bob ONCE BLOCK 30000 NOTIFY elsewhere";
    assert_eq!(other.send(again), Ok(Value::SimpleString("QUEUED".into())));
    assert_eq!(owners(&mut client, "k"), ["bob", "carol"]);
    let bob = &queue(&mut client, "k")[0];
    assert_eq!((bob.id, bob.timeout), (id, 30_000));
    // The connection that asked first has no place of his any more, and the old time does not count.
    drop(client);
    soon("carol's leave", || owners(&mut other, "k") == ["bob"]);
    all_along(&mut other, 1100, |other| assert_eq!(owners(other, "k"), ["bob"]));
    other.ask::<()>("LOCK.RELEASE k alice");
    assert!(mail.next().starts_with("granted "));
}

#[test]
fn without_once_each_ask_is_a_place_and_a_hold() {
    let (_server, mut client, mut mail) = super::held("");
    for _ in 0..2 {
        let asked = client.send("LOCK.ACQUIRE k OWNER bob BLOCK 0 NOTIFY ch");
        assert_eq!(asked, Ok(Value::SimpleString("QUEUED".into())));
    }
    client.ask::<()>("LOCK.RELEASE k alice");
    let fence = client.holder("k").unwrap().fence;
    let told = [mail.next(), mail.next()];
    assert_eq!(told, [format!("granted {fence} bob"), format!("granted {fence} bob")]);
    assert_eq!(client.acquire("k", "OWNER bob ONCE").unwrap().holds, 2);
}

#[test]
fn a_wait_that_is_over_is_told_and_not_early() {
    let (_server, mut client, mut mail) = super::held("");
    let began = Instant::now();
    queue_up(&mut client, "bob", "BLOCK 150");
    assert_eq!(mail.next(), "timeout bob");
    assert!(began.elapsed() >= Duration::from_millis(150));
    assert!(owners(&mut client, "k").is_empty());
    assert_eq!(client.info("lock", "lock_timeouts"), "1");
    assert_eq!(client.info("lock", "lock_places"), "0");
}

#[test]
fn a_place_is_given_up_by_leave() {
    let (server, mut client, mut mail) = super::held("");
    queue_up(&mut client, "bob", "");
    queue_up(&mut client, "carol", "");
    assert_eq!(client.ask::<i64>("LOCK.LEAVE k bob"), 1);
    assert_eq!(owners(&mut client, "k"), ["carol"]);
    assert_eq!(client.ask::<i64>("LOCK.LEAVE k bob"), 0);
    assert_eq!(client.ask::<i64>("LOCK.LEAVE k alice"), 0);
    assert_eq!(client.ask::<i64>("LOCK.LEAVE another bob"), 0);
    assert_eq!(client.holder("k").unwrap().owner, "alice");
    // Those who are blocked leave by their own connection.
    let _dave = Waiter::new(&server, "k", "OWNER dave");
    assert_eq!(client.ask::<i64>("LOCK.LEAVE k dave"), 0);
    assert_eq!(owners(&mut client, "k"), ["carol", "dave"]);
    assert_eq!(mail.rest(&mut client), [""; 0]);
}

#[test]
fn of_several_places_the_last_is_given_up() {
    let (_server, mut client, _mail) = super::held("");
    for owner in ["bob", "carol", "bob"] {
        client.ask::<()>(&format!("LOCK.ACQUIRE k OWNER {owner} BLOCK 60000 NOTIFY ch"));
    }
    assert_eq!(owners(&mut client, "k"), ["bob", "carol", "bob"]);
    assert_eq!(client.ask::<i64>("LOCK.LEAVE k bob"), 1);
    assert_eq!(owners(&mut client, "k"), ["bob", "carol"]);
}

#[test]
fn owners_of_places_re_enter_wherever_they_stand() {
    let (server, mut client, mut mail) = super::held("");
    let mut bob = Waiter::new(&server, "k", "OWNER bob PX 60000");
    queue_up(&mut client, "carol", "");
    queue_up(&mut client, "bob", "");
    client.ask::<()>("LOCK.RELEASE k alice");
    let granted = bob.granted();
    assert_eq!(mail.next(), format!("granted {} bob", granted.fence));
    wait_for("carol alone", || owners(&mut client, "k") == ["carol"]);
    // The place of the same owner was without a hold of its own: nothing is taken back when it is not claimed.
    assert_eq!(client.ask::<i64>("LOCK.LEAVE k bob"), 1);
    assert_eq!(client.holder("k").unwrap().holds, 1);
}
