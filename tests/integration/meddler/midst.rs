//! A command has its keys open, and something that it does makes the server tell of an event. In that event another module does
//! anything to those keys.
//!
//! What the servers don't survive, with or without locks, is left out. In `new`, anything that takes that very key away: `setKey`
//! goes on with the value, to which it takes a reference only then (`MEDDLE new`, then `SET k v EX 100`, crashes each of them). In
//! `gone:deleted`, anything that does the same, empties or swaps databases, or makes keys: `dbGenericDelete` has found the key's place
//! already. In `expired`, anything that makes that key anew, where the key is written (`dbAdd`). (With a replica, Redis 8 crashes there now
//! and then at any write, `replicationFeedSlaves`: so without.)

use redis::Value;

use super::{NESTED, meddle, owner, server};
use crate::support::{Client, Waiter, soon, wait_for};

const ALL: &str = "LOCK.MACQUIRE 3 a c b OWNER bob PX 600000";

fn owners(client: &mut Client) -> [Option<String>; 3] {
    ["a", "b", "c"].map(|key| owner(client, key))
}

/// One lock is granted, and in the event of that another one goes, which the owner has had before: as if it had gone afterwards.
#[test]
fn an_open_lock_that_goes() {
    for line in ["DEL c", "UNLINK c", "PEXPIRE c -1", "RENAME c z", "MOVE c 1", "SET c text"] {
        let (server, mut client) = server();
        let replica = server.replica();
        client.acquire("c", "OWNER bob PX 600000").unwrap();
        meddle(&mut client, "new", line);
        assert!(matches!(client.ask(ALL), Value::Array(_)), "{line}");
        assert_eq!(client.ask::<i64>("MEDDLED"), 1, "{line}");
        // What another value finds where the old one was must not matter.
        client.ask_all::<Value, _>(&["SET x x", "SET y y", "LOCK.ACQUIRE d OWNER dave PX 600000"]);
        assert_eq!(owner(&mut client, "a").as_deref(), Some("bob"), "{line}");
        assert_eq!(owner(&mut client, "b").as_deref(), Some("bob"), "{line}");
        if !line.starts_with("SET") {
            assert_eq!(owner(&mut client, "c"), None, "{line}");
        }
        replica.wait_for_sync_with(&server);
        assert_eq!(replica.client().snapshot().digest, client.snapshot().digest, "{line}");
    }
}

/// An open lock that the running command has just granted, and that another module deletes.
#[test]
fn an_open_lock_that_is_new_and_goes() {
    let (_server, mut client) = server();
    meddle(&mut client, "new", "GET none");
    meddle(&mut client, "new", "DEL a");
    assert!(matches!(client.ask("LOCK.MACQUIRE 3 a b c OWNER bob PX 600000"), Value::Array(_)));
    client.ask_all::<Value, _>(&["SET x x", "SET y y", "LOCK.ACQUIRE d OWNER dave PX 600000"]);
    let bob = Some("bob".to_string());
    assert_eq!(owners(&mut client), [None, bob.clone(), bob]);
}

#[test]
fn an_open_lock_that_goes_as_another_is_released() {
    for line in ["DEL c", "UNLINK c", "PEXPIRE c -1"] {
        let (_server, mut client) = server();
        if client.version() < (7, 2) {
            println!("this server tells no module of keys that go");
            return;
        }
        client.ask::<Value>("LOCK.MACQUIRE 3 a c b OWNER bob PX 600000");
        meddle(&mut client, "gone:deleted", line);
        let left: Vec<Option<i64>> = client.ask("LOCK.MRELEASE 3 a c b bob");
        assert_eq!(client.ask::<i64>("MEDDLED"), 1, "{line}");
        assert_eq!(left, [Some(0); 3], "{line}: as if it had gone afterwards");
        assert_eq!(owners(&mut client), [None, None, None], "{line}");
    }
}

#[test]
fn nobody_acquires_in_the_midst() {
    for line in ["LOCK.ACQUIRE b OWNER eve", "LOCK.ACQUIRE other OWNER eve", "LOCK.BREAK c"] {
        let (_server, mut client) = server();
        client.acquire("c", "OWNER bob PX 600000").unwrap();
        meddle(&mut client, "new", line);
        assert!(matches!(client.ask(ALL), Value::Array(_)), "{line}");
        assert_eq!(client.ask::<String>("MEDDLE.REPLY"), NESTED, "{line}");
        assert!(owners(&mut client).iter().all(|owner| owner.as_deref() == Some("bob")), "{line}");
        assert_eq!(owner(&mut client, "other"), None, "{line}");
    }
}

/// A waiter is given all its locks by a timer; then another module deletes one of them. The waiter is told of a lease of 0, and keeps none.
#[test]
fn an_open_lock_that_goes_as_a_waiter_is_granted_others() {
    let (server, mut client) = server();
    client.acquire("c", "OWNER bob PX 600000").unwrap();
    client.acquire("a", "OWNER alice PX 600000").unwrap();
    let line = format!("{ALL} BLOCK 0");
    let mut waiter = Waiter::of_words(&server, server.client(), line.split(' '));
    let mut next = Waiter::new(&server, "c", "OWNER carol PX 600000");
    meddle(&mut client, "new", "DEL c");
    client.ask::<i64>("LOCK.RELEASE a alice");
    assert!(matches!(waiter.reply(), Ok(Value::Array(_))));
    assert_eq!(next.granted().owner, "carol");
    wait_for("the end of the others", || ["a", "b"].iter().all(|key| owner(&mut client, key).is_none()));
}

/// While two are given a lock that has room for both, another module deletes something else: the second gets it a moment later.
#[test]
fn waiters_left_in_the_midst_are_served_soon() {
    let (server, mut client) = server();
    client.acquire("z", "PX 600000").unwrap();
    client.acquire("k", "OWNER alice PX 600000").unwrap();
    let waiters = ["bob", "carol"].map(|owner| Waiter::new(&server, "k", &format!("OWNER {owner} LIMIT 2")));
    meddle(&mut client, "new", "DEL z");
    client.ask::<i64>("DEL k");
    for mut waiter in waiters {
        waiter.granted();
    }
    assert_eq!(client.ask::<i64>("MEDDLED"), 1);
    assert_eq!(client.holding("k"), ["bob", "carol"]);
}

/// What is granted in one step is decided before another module hears of any of it.
#[test]
fn a_newcomer_beside_a_waiter() {
    let (server, mut client) = server();
    client.acquire("z", "PX 600000").unwrap();
    client.acquire("k", "OWNER alice PX 600000").unwrap();
    let mut waiter = Waiter::new(&server, "k", "OWNER bob LIMIT 2");
    meddle(&mut client, "new", "DEL z");
    let newcomer = "LOCK.ACQUIRE k OWNER carol LIMIT 2";
    let begin = ["MULTI", "DEL k", newcomer, "EXEC"].map(|line| line.split(' ').collect());
    client.begin_together(&begin);
    for _ in 0..3 {
        client.finish().unwrap();
    }
    let Ok(Value::Array(replies)) = client.finish() else { panic!("a transaction") };
    assert!(matches!(&replies[1], Value::Array(_)), "{replies:?}");
    waiter.granted();
    assert_eq!(client.holding("k"), ["bob", "carol"]);
}

/// `DETECT` looks at a lock that has expired, which Redis 7.0 deletes then; and another module deletes the one that the command waits
/// for. Its wait is over.
#[test]
fn a_lock_that_goes_while_others_are_looked_at() {
    let (server, mut client) = server();
    if client.version() >= (7, 2) {
        println!("on this server looks leave no trace");
        return;
    }
    client.acquire("as", "OWNER a PX 600000").unwrap();
    client.acquire("bs", "OWNER b PX 600000").unwrap();
    let _waiter = Waiter::new(&server, "bs", "OWNER a PX 600000");
    meddle(&mut client, "expired", "DEL as");
    // The lease of `bs` ends before anybody can look.
    let lines = ["PEXPIRE bs 100", "DEBUG SLEEP 0.2", "LOCK.ACQUIRE as OWNER c PX 600000 BLOCK 0 DETECT"];
    client.begin_together(&lines.map(|line| line.split(' ').collect()));
    let replies: Vec<_> = lines.iter().map(|_| client.finish()).collect();
    assert!(matches!(&replies[2], Ok(Value::Array(_))), "{replies:?}");
    soon("the event", || client.ask::<i64>("MEDDLED") == 1);
    assert_eq!(owner(&mut client, "as").as_deref(), Some("c"));
}
