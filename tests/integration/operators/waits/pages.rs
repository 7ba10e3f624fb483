//! Which waiters are shown, in which order, page by page.

use redis::Value;

use super::{only, owners, page, queue_up, waits};
use crate::several;
use crate::support::{Server, Setup, Waiter, blocked_clients, wait_for};

#[test]
fn a_waiter_is_shown_with_all_that_it_asked_for() {
    let server = Server::start();
    for mut client in [server.client(), server.client_resp3()] {
        client.acquire("k", "OWNER alice PX 600000").unwrap();
        let bob = Waiter::new(&server, "k", "OWNER bob LIMIT 3 BLOCK 60000");
        let shown = only(&mut client, "");
        assert_eq!((shown.text("key"), shown.number("db")), ("k".into(), 0));
        assert_eq!((shown.text("owner"), shown.number("client-id")), ("bob".into(), bob.id));
        assert_eq!((shown.text("mode"), shown.number("limit")), ("shared".into(), 3));
        assert_eq!((shown.text("waits-by"), shown.number("timeout-ms")), ("block".into(), 60_000));
        assert!(!shown.has("keys") && !shown.has("reserved-for"), "{shown:?}");
        let waited = shown.number("waited-ms");
        wait_for("20 ms more", || only(&mut client, "").number("waited-ms") >= waited + 20);
        drop(bob);
        wait_for("the end of the waiter", || waits(&mut client, "").is_empty());
        client.ask::<()>("LOCK.BREAK k");
    }
}

#[test]
fn the_longest_wait_comes_first_whichever_the_lock_and_the_database() {
    let (server, mut client) = Server::and_client();
    let mut places = server.client();
    let id: i64 = places.ask("CLIENT ID");
    let mut waiters = Vec::new();
    for (number, key) in ["b", "a", "c", "a"].into_iter().enumerate() {
        places.ask::<()>(&format!("SELECT {}", number % 2));
        places.ask::<Value>(&format!("LOCK.ACQUIRE {key} OWNER alice PX 600000 ONCE"));
        if number == 2 {
            let mut other = server.client();
            other.ask::<()>("SELECT 0");
            waiters.push(Waiter::of(&server, other, key, "OWNER w2"));
        } else {
            queue_up(&mut places, key, &format!("w{number}"), "");
        }
    }
    let shown = waits(&mut client, "");
    assert_eq!(owners(&shown), ["w0", "w1", "w2", "w3"]);
    let told: Vec<_> = shown.iter().map(|shown| (shown.text("key"), shown.number("db"))).collect();
    let expected = [("b", 0), ("a", 1), ("c", 0), ("a", 1)].map(|(key, db)| (key.to_owned(), db));
    assert_eq!(told, expected);
    let ways: Vec<_> =
        shown.iter().map(|shown| (shown.text("waits-by"), shown.number("client-id"))).collect();
    let by = |way: &str, id| (way.to_owned(), id);
    assert_eq!(ways, [by("notify", id), by("notify", id), by("block", waiters[0].id), by("notify", id)]);
    // The client's database is the same, although it has listed waiters of both databases.
    assert_eq!(client.lock_info("a"), None);
    assert!(client.lock_info("b").is_some());
}

#[test]
fn a_key_shows_that_queue_alone_in_the_selected_database() {
    let (_server, [mut client, mut places]) = Server::and_clients();
    for db in [0, 1] {
        places.ask::<()>(&format!("SELECT {db}"));
        for key in ["k", "l"] {
            places.acquire(key, &format!("OWNER holder{db} PX 600000")).unwrap();
            queue_up(&mut places, key, &format!("{key}{db}"), "");
        }
    }
    assert_eq!(owners(&waits(&mut client, "KEY k")), ["k0"]);
    assert_eq!(owners(&waits(&mut client, "KEY l COUNT 5")), ["l0"]);
    assert_eq!(owners(&waits(&mut client, "KEY nobodys")), [""; 0]);
    client.ask::<()>("SELECT 1");
    assert_eq!(owners(&waits(&mut client, "key k")), ["k1"]);
    let shown = waits(&mut client, "");
    assert_eq!(owners(&shown), ["k0", "l0", "k1", "l1"]);
    let held: Vec<_> = shown.iter().map(super::Shown::holding).collect();
    assert_eq!(held, [["holder0"], ["holder0"], ["holder1"], ["holder1"]]);
    assert_eq!(client.holder("k").unwrap().owner, "holder1", "the client's database is what it was");
}

/// While waiters come and go between two pages, each waiter that stays is shown exactly once.
#[test]
fn pages_follow_each_other_while_waits_come_and_go() {
    let (server, [mut client, mut places]) = Server::and_clients();
    for words in ["COUNT 3", "KEY k COUNT 3"] {
        client.acquire("k", "OWNER alice PX 600000").unwrap();
        for owner in 0..9 {
            queue_up(&mut places, "k", &format!("w{owner}"), "");
        }
        let (cursor, first) = page(&mut client, words);
        assert_eq!(owners(&first), ["w0", "w1", "w2"]);
        for gone in ["w1", "w2", "w4"] {
            assert_eq!(places.ask::<i64>(&format!("LOCK.LEAVE k {gone}")), 1);
        }
        queue_up(&mut places, "k", "late", "");
        let (cursor, second) = page(&mut client, &format!("{words} CURSOR {cursor}"));
        assert_eq!(owners(&second), ["w3", "w5", "w6"]);
        let (cursor, third) = page(&mut client, &format!("CURSOR {cursor} {words}"));
        assert_eq!((owners(&third), &cursor[..]), (vec!["w7".into(), "w8".into(), "late".into()], "0"));
        client.ask::<()>("FLUSHALL");
        drop(std::mem::replace(&mut places, server.client()));
        client.ask::<()>("LOCK.BREAK k");
        wait_for("the end of the places", || waits(&mut client, "").is_empty());
    }
}

#[test]
fn one_who_waits_for_several_is_shown_once_with_what_keeps_it_waiting() {
    let (server, mut client) = Server::and_client();
    client.acquire("b", "OWNER alice PX 600000").unwrap();
    client.acquire("c", "OWNER carol PX 600000").unwrap();
    let mut bob = several::waits(&server, "a b c", "bob", "");
    let shown = only(&mut client, "");
    assert_eq!(shown.keys(), ["a", "b", "c"]);
    assert_eq!((shown.text("key"), shown.holding()), ("b".into(), vec!["alice".into()]));
    // With `KEY`, the waiter also appears in the queues of its other locks, but its key is still `b`.
    for key in ["a", "b", "c"] {
        assert_eq!(only(&mut client, &format!("KEY {key}")).text("key"), "b");
    }
    // Another client waits behind it, for a lock that is free.
    let dave = Waiter::new(&server, "a", "OWNER dave");
    let behind = &waits(&mut client, "KEY a")[1];
    assert_eq!((behind.text("owner"), behind.text("reserved-for")), ("dave".into(), "bob".into()));
    assert_eq!((behind.number("holders-count"), behind.holders().len()), (0, 0));
    client.ask::<()>("LOCK.RELEASE b alice");
    wait_for("another lock to keep it waiting", || only(&mut client, "KEY b").text("key") == "c");
    assert_eq!(only(&mut client, "KEY c").holding(), ["carol"]);
    client.ask::<()>("LOCK.RELEASE c carol");
    several::granted(&mut bob);
    assert_eq!(only(&mut client, "").holding(), ["bob"]);
    drop(dave);
}

#[test]
fn lock_waits_shows_nobody_on_a_replica() {
    let (primary, mut client) = Server::held();
    let _bob = Waiter::new(&primary, "k", "OWNER bob");
    let replica = primary.replica();
    assert_eq!(waits(&mut replica.client(), "").len(), 0);
    assert_eq!(waits(&mut client, "").len(), 1);
    // The primary becomes a replica.
    let other = Server::start();
    client.ask::<()>(&format!("REPLICAOF 127.0.0.1 {}", other.port()));
    wait_for("the waiter to be sent away", || blocked_clients(&mut client) == 0);
    assert_eq!(waits(&mut client, "").len(), 0);
}

/// `LOCK.WAITS` works in transactions and scripts, and on a server that refuses writes.
#[test]
fn it_is_answered_wherever_a_command_that_reads_is() {
    let (_server, mut client) = Setup::new().set("min-replicas-to-write", "1").start_and_client();
    client.ask::<()>("MULTI");
    client.ask::<String>("LOCK.WAITS");
    let replies: Vec<(String, Vec<Value>)> = client.ask("EXEC");
    assert_eq!(replies, [("0".to_owned(), vec![])]);
    let script = "return redis.call('LOCK.WAITS')";
    assert_eq!(client.ask_words::<(String, Vec<Value>), _>(["EVAL", script, "0"]).0, "0");
}
