//! A command has its keys open, and one of its actions makes the server report an event. In this event, another module runs any command on
//! these keys.
//!
//! Cases in which the servers crash even without locks are left out. In `new`: commands that remove the same key, because `setKey` uses the
//! value afterwards (`MEDDLE new`, then `SET k v EX 100`, crashes every server). In `gone:deleted`: the same, and commands that empty or
//! swap databases or make keys, because `dbGenericDelete` has already found the key's place. In `expired`: commands that make the key again
//! if it is being written (`dbAdd`). There are no replicas, because Redis 8 then sometimes crashes at any write (`replicationFeedSlaves`).

use redis::Value;

use super::{NESTED, meddle, owner, server};
use crate::support::{Client, Waiter, soon, wait_for};

const ALL: &str = "LOCK.MACQUIRE 3 a c b OWNER bob PX 600000";

fn owners(client: &mut Client) -> [Option<String>; 3] {
    ["a", "b", "c"].map(|key| owner(client, key))
}

/// One lock is granted, and in its event another lock of the same owner ends, as if it had ended afterwards.
#[test]
fn an_open_lock_that_goes() {
    for line in ["DEL c", "UNLINK c", "PEXPIRE c -1", "RENAME c z", "MOVE c 1", "SET c text"] {
        let (server, mut client) = server();
        let replica = server.replica();
        client.acquire("c", "OWNER bob PX 600000").unwrap();
        meddle(&mut client, "new", line);
        assert!(matches!(client.ask(ALL), Value::Array(_)), "{line}");
        assert_eq!(client.ask::<i64>("MEDDLED"), 1, "{line}");
        // New values may get the memory of the old lock, which must not matter.
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

/// Another module deletes an open lock that the running command has just granted.
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

/// A timer gives a waiter all its locks; then another module deletes one of them. The waiter is told of a lease of 0, and keeps no lock.
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

/// Two waiters get a lock with room for both. Another module deletes a key after the first grant, so the second comes later.
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

/// All grants of a step are decided before another module sees the first of them.
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

/// `DETECT` looks at an expired lock, which Redis 7.0 then deletes. Another module deletes the lock for which the command waits, so the
/// wait ends.
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
    // The lease of `bs` ends before any command can look at it.
    let lines = ["PEXPIRE bs 100", "DEBUG SLEEP 0.2", "LOCK.ACQUIRE as OWNER c PX 600000 BLOCK 0 DETECT"];
    client.begin_together(&lines.map(|line| line.split(' ').collect()));
    let replies: Vec<_> = lines.iter().map(|_| client.finish()).collect();
    assert!(matches!(&replies[2], Ok(Value::Array(_))), "{replies:?}");
    soon("the event", || client.ask::<i64>("MEDDLED") == 1);
    assert_eq!(owner(&mut client, "as").as_deref(), Some("c"));
}
