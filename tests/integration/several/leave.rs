//! A waiter that goes away leaves all queues at once: what was reserved is free for those behind.

use redis::Value;

use super::{ask, count, free, granted, holders, holds, holds_one, waits, waits_for_one};
use crate::support::{Server, Stopwatch, owners, soon, wait_for, wait_until_gone};

/// Ways to end a wait, by the number of the connection.
const WAYS: [&str; 4] =
    ["CLIENT UNBLOCK # TIMEOUT", "CLIENT UNBLOCK # ERROR", "CLIENT KILL ID #", "close the connection"];

#[test]
fn those_behind_come_at_once_on_each_lock() {
    let (server, mut client) = Server::and_client();
    for way in WAYS {
        holds_one(&mut client, "a", "alice");
        let mut all = waits(&server, "x a y", "bob", "");
        let mut behind = ["x", "y"].map(|key| waits_for_one(&server, key, "carol"));
        let mut both = waits(&server, "y a", "dave", "");
        if way.starts_with("CLIENT") {
            client.ask::<Value>(&way.replace('#', &all.id.to_string()));
            if way.ends_with("TIMEOUT") {
                assert_eq!(all.reply(), Ok(Value::Nil));
            } else if way.ends_with("ERROR") {
                assert!(all.refused().starts_with("UNBLOCKED "));
            }
        } else {
            drop(all);
        }
        for waiter in &mut behind {
            waiter.granted();
        }
        assert_eq!(owners(&mut client, "a"), ["dave"], "{way}");
        free(&mut client, "y", "carol");
        free(&mut client, "a", "alice");
        granted(&mut both);
        assert_eq!(count(&mut client, "lock_waiters"), 0, "{way}");
        client.ask::<()>("FLUSHALL");
    }
}

#[test]
fn a_timeout_is_null_and_not_early() {
    let (server, mut client) = Server::and_client();
    holds_one(&mut client, "a", "alice");
    let mut behind = server.client();
    let mut all = server.client();
    let watch = Stopwatch::start();
    all.begin(&ask("a free", "bob", "BLOCK 1500"));
    wait_for("it to wait", || owners(&mut client, "a") == ["bob"]);
    behind.begin("LOCK.ACQUIRE free OWNER carol PX 600000 BLOCK 0");
    assert_eq!(all.finish(), Ok(Value::Nil));
    assert!(watch.elapsed().as_millis() >= 1500);
    assert!(watch.worked().as_millis() as i64 <= 1500 + watch.allowed());
    assert_eq!(crate::support::grant(behind.finish().unwrap()).unwrap().owner, "carol");
    assert_eq!(count(&mut client, "lock_timeouts"), 1);
    assert_eq!(holders(&mut client, ["a", "free"]), ["alice", "carol"]);
}

/// In the step in which it gets them, it goes away: all go on.
#[test]
fn who_goes_in_the_step_of_the_grant_gets_none() {
    let (server, mut client) = Server::and_client();
    for way in &WAYS[..3] {
        holds(&mut client, "a b", "alice", "");
        let all = waits(&server, "a b", "bob", "");
        let mut behind = ["a", "b"].map(|key| waits_for_one(&server, key, "carol"));
        client.ask::<()>("MULTI");
        client.ask::<()>("LOCK.MRELEASE 2 a b alice");
        client.ask::<()>(&way.replace('#', &all.id.to_string()));
        client.ask::<Value>("EXEC");
        for waiter in &mut behind {
            waiter.granted();
        }
        assert_eq!(holders(&mut client, ["a", "b"]), ["carol"; 2], "{way}");
        client.ask::<()>("FLUSHALL");
    }
}

/// The holds that it was to get of what its owner holds are not left behind.
#[test]
fn what_its_owner_holds_stays_as_it_is() {
    let (server, mut client) = Server::and_client();
    for way in WAYS {
        let mine = holds_one(&mut client, "mine", "bob");
        holds_one(&mut client, "a", "alice");
        let all = waits(&server, "mine a", "bob", "");
        let id = all.id;
        if way.starts_with("CLIENT KILL") {
            client.ask::<()>("MULTI");
            client.ask::<()>("LOCK.RELEASE a alice");
            client.ask::<()>(&format!("CLIENT KILL ID {id}"));
            client.ask::<Value>("EXEC");
        } else if way.starts_with("CLIENT") {
            client.ask::<Value>(&way.replace('#', &id.to_string()));
        }
        drop(all);
        wait_until_gone(&mut client, id);
        soon("the wait to end", || count(&mut client, "lock_waiters") == 0);
        soon("one hold", || client.holder("mine").unwrap().holds == 1);
        assert_eq!(client.holder("mine").unwrap().fence, mine, "{way}");
        soon("the other to be nobody's by it", || holders(&mut client, ["a"])[0] != "bob");
        client.ask::<()>("FLUSHALL");
    }
}
