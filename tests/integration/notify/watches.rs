//! What holders hear of their grants.

use redis::Value;

use super::{ask, queue_up};
use crate::support::{Client, Grant, Mailbox, Server, Waiter, blocked_clients, grant, heard, owners, soon};

/// Alice holds `k`, and hears of it, also that somebody waits.
#[track_caller]
fn holds(client: &mut Client, options: &str) -> Grant {
    grant(ask(client, "alice", &format!("{options} WANTED"))).unwrap()
}

/// However a grant ends, its holder hears of it, if it did not end it itself.
#[test]
fn a_grant_that_is_lost_is_told() {
    let ends = [
        "LOCK.BREAK k",
        "DEL k",
        "UNLINK k",
        "FLUSHALL",
        "FLUSHDB",
        "SET k x",
        "RENAME k l",
        "PEXPIRE k 1",
        "SWAPDB 0 1",
        "MOVE k 1",
    ];
    for end in ends {
        let (_server, mut client, mut mail) = heard("");
        let fence = holds(&mut client, "PX 60000").fence;
        client.ask::<Value>(end);
        assert_eq!(mail.next(), format!("lost {fence} alice"), "{end}");
        assert!(mail.rest(&mut client).is_empty(), "{end}");
    }
}

#[test]
fn an_own_release_is_not_told() {
    let (_server, mut client, mut mail) = super::heard("");
    holds(&mut client, "");
    client.ask::<()>("LOCK.RELEASE k alice");
    client.acquire("k", "OWNER bob").unwrap();
    client.ask::<()>("LOCK.BREAK k");
    assert!(mail.rest(&mut client).is_empty());
}

#[test]
fn a_wish_is_told_once_for_each_queue() {
    let (server, mut client, mut mail) = super::heard("");
    let fence = holds(&mut client, "PX 60000").fence;
    let wanted = format!("wanted {fence} alice");
    assert!(mail.rest(&mut client).is_empty());
    let bob = Waiter::new(&server, "k", "OWNER bob");
    assert_eq!(mail.next(), wanted);
    let carol = Waiter::new(&server, "k", "OWNER carol");
    assert!(mail.rest(&mut client).is_empty());
    drop((bob, carol));
    soon("the queue to be gone", || blocked_clients(&mut client) == 0 && owners(&mut client, "k").is_empty());
    assert!(mail.rest(&mut client).is_empty());
    let _dave = Waiter::new(&server, "k", "OWNER dave");
    assert_eq!(mail.next(), wanted);
    // A client that asks again is told again, since the first message may have been lost.
    holds(&mut client, "PX 60000");
    assert_eq!(mail.next(), wanted);
    assert!(mail.rest(&mut client).is_empty());
}

/// One message less for each handover to a place that has others behind it.
#[test]
fn a_wish_is_told_only_to_those_who_ask_for_it() {
    let (server, mut client, mut mail) = super::heard("");
    let fence = grant(ask(&mut client, "alice", "PX 60000")).unwrap().fence;
    queue_up(&mut client, "bob", "");
    let _carol = Waiter::new(&server, "k", "OWNER carol");
    assert_eq!(mail.rest(&mut client), [""; 0]);
    // A client that asks again may want it now, and the last word counts.
    holds(&mut client, "");
    assert_eq!(mail.next(), format!("wanted {fence} alice"));
    ask(&mut client, "alice", "");
    client.ask::<()>("LOCK.RELEASE k alice");
    let fence = client.holder("k").unwrap().fence;
    assert_eq!(mail.next(), format!("granted {fence} bob"));
    ask(&mut client, "bob", "");
    assert_eq!(mail.rest(&mut client), [""; 0]);
    assert_eq!(client.info("lock", "lock_messages"), "2");
}

#[test]
fn a_claim_hears_of_those_behind_it() {
    let (server, mut client, mut mail) = super::held("");
    queue_up(&mut client, "bob", "WANTED");
    let _carol = Waiter::new(&server, "k", "OWNER carol");
    client.ask::<()>("LOCK.RELEASE k alice");
    let fence = client.holder("k").unwrap().fence;
    assert_eq!(mail.next(), format!("granted {fence} bob"));
    // It is told when it has claimed the lock: before, it has nothing to give up.
    assert!(mail.rest(&mut client).is_empty());
    client.acquire("k", "OWNER bob ONCE").unwrap();
    assert_eq!(mail.next(), format!("wanted {fence} bob"));
    assert!(mail.rest(&mut client).is_empty());
}

#[test]
fn the_channel_named_last_counts() {
    let (server, mut client) = Server::and_client();
    let (mut mail, mut elsewhere) = (Mailbox::of(&server, "ch"), Mailbox::of(&server, "elsewhere"));
    let fence = holds(&mut client, "PX 60000").fence;
    client.acquire("k", "OWNER alice ONCE NOTIFY elsewhere").unwrap();
    // A client that asks without a channel changes nothing of that.
    client.acquire("k", "OWNER alice ONCE").unwrap();
    client.ask::<()>("LOCK.BREAK k");
    assert_eq!(elsewhere.next(), format!("lost {fence} alice"));
    assert!(mail.rest(&mut client).is_empty());
}

#[test]
fn an_old_place_says_nothing_of_the_next_grant() {
    let server = Server::start();
    let (mut client, mut old, mut mail) = (server.client(), server.client(), Mailbox::of(&server, "ch"));
    client.acquire("k", "OWNER alice").unwrap();
    queue_up(&mut old, "bob", "WANTED");
    queue_up(&mut client, "carol", "WANTED");
    client.ask::<()>("LOCK.RELEASE k alice");
    let bobs = client.holder("k").unwrap().fence;
    client.ask::<()>("LOCK.BREAK k");
    let carols = client.holder("k").unwrap().fence;
    let told = [mail.next(), mail.next(), mail.next()];
    let expected = ["granted", "lost", "granted"].iter().zip([bobs, bobs, carols]);
    let expected =
        expected.zip(["bob", "bob", "carol"]).map(|((word, fence), owner)| format!("{word} {fence} {owner}"));
    assert_eq!(told.to_vec(), expected.collect::<Vec<_>>());
    let _dave = Waiter::new(&server, "k", "OWNER dave");
    // Bob's place is gone with his connection. Carol has not claimed hers.
    let id: i64 = old.ask("CLIENT ID");
    drop(old);
    soon("bob's connection to be gone", || client.ask::<String>(&format!("CLIENT LIST ID {id}")).is_empty());
    assert!(mail.rest(&mut client).is_empty());
    client.acquire("k", "OWNER carol ONCE").unwrap();
    assert_eq!(mail.next(), format!("wanted {carols} carol"));
}
