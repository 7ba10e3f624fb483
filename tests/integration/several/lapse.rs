//! Leases that run out, and those who wait for several.

use super::{count, free, granted, grants, holders, holds, holds_one, waits};
use crate::support::{Client, Server, grant, lease_end_after, owners, wait_for};

/// What is granted by a lapse is not granted early; whoever is last.
#[test]
fn the_last_lease_to_end_lets_it_come_and_not_early() {
    let server = Server::start();
    let mut client = server.client();
    for (first, second) in [(100, 200), (200, 100)] {
        holds(&mut client, "a b", "alice", "");
        let mut all = waits(&server, "a b", "bob", "");
        let a = lease_end_after(&mut client, "a", &[&format!("LOCK.EXTEND a alice PX {first}")]);
        let b = lease_end_after(&mut client, "b", &[&format!("PEXPIRE b {second}")]);
        let got = grants(all.client.finish().unwrap()).unwrap();
        assert!(got.fences[0] / 1000 >= a.max(b), "{got:?}: {a}, {b}");
        client.ask::<()>("FLUSHALL");
    }
    assert_eq!(count(&mut client, "lock_lapses"), 4);
}

/// It had been long when the waiter came, and was cut short afterwards; or the other way round.
#[test]
fn a_lease_that_is_moved_meanwhile() {
    let server = Server::start();
    let mut client = server.client();
    holds(&mut client, "a b", "alice", "PX 3000");
    let mut all = waits(&server, "a b", "bob", "");
    client.ask::<i64>("LOCK.EXTEND b alice PX 600000");
    wait_for("the lapse of a", || client.holder("a").is_none());
    assert!(all.is_blocked(&mut client));
    assert_eq!(client.acquire("a", "OWNER late"), None);
    let ends = lease_end_after(&mut client, "b", &["PEXPIRE b 100"]);
    let got = grants(all.client.finish().unwrap()).unwrap();
    assert!(got.fences[0] / 1000 >= ends);
}

#[test]
fn a_lease_without_an_end_keeps_it_waiting() {
    let server = Server::start();
    let mut client = server.client();
    holds(&mut client, "a b", "alice", "PX 300");
    client.ask::<()>("PERSIST b");
    let mut all = waits(&server, "a b", "bob", "");
    wait_for("the lapse of a", || client.holder("a").is_none());
    assert!(all.is_blocked(&mut client));
    client.ask::<i64>("PEXPIRE b 50");
    grants(all.client.finish().unwrap()).unwrap();
}

/// What it was granted lapses like anything else: each for itself.
#[test]
fn what_it_was_granted_lapses() {
    let server = Server::start();
    let mut client = server.client();
    holds(&mut client, "a b", "alice", "");
    let mut all = waits(&server, "a b", "bob", "PX 300");
    let mut next = super::waits_for_one(&server, "b", "carol");
    super::release(&mut client, "a b", "alice");
    let got = granted(&mut all);
    let carols = grant(next.client.finish().unwrap()).unwrap();
    assert!(carols.granted_at() >= got.fences[0] / 1000 + 300);
    wait_for("the other lapse", || holders(&mut client, ["a"]) == ["-"]);
}

/// A reserved lock does not lapse: nobody holds it. Those behind come when the time of who waits in front is up.
#[test]
fn the_time_of_a_wait_ends_its_reservation() {
    let server = Server::start();
    let mut client = server.client();
    holds_one(&mut client, "a", "alice");
    let begin = |line: &str| {
        let mut client: Client = server.client();
        client.begin(line);
        client
    };
    let mut first = begin(&super::ask("x a", "bob", "BLOCK 2000"));
    wait_for("it to wait", || owners(&mut client, "a") == ["bob"]);
    let mut second = begin(&super::ask("a x y", "carol", "BLOCK 4000"));
    wait_for("it to wait", || owners(&mut client, "a") == ["bob", "carol"]);
    let mut third = begin("LOCK.ACQUIRE y OWNER dave PX 600000 BLOCK 0");
    assert_eq!(first.finish(), Ok(redis::Value::Nil));
    assert_eq!(second.finish(), Ok(redis::Value::Nil));
    grant(third.finish().unwrap()).unwrap();
    free(&mut client, "a", "alice");
    assert_eq!(count(&mut client, "lock_timeouts"), 2);
}

/// Half of the holders of many locks end at once.
#[test]
fn many_lapses_at_once() {
    let server = Server::start();
    let mut client = server.client();
    let keys: Vec<_> = (0..100).map(|n| format!("k{n}")).collect();
    let half: Vec<&str> = keys.iter().step_by(2).map(String::as_str).collect();
    holds(&mut client, &half.join(" "), "alice", "");
    let mut all = waits(&server, &keys.join(" "), "bob", "");
    let mut one = super::waits_for_one(&server, "k99", "carol");
    let ends =
        lease_end_after(&mut client, "k0", &[&format!("LOCK.MEXTEND 50 {} alice PX 200", half.join(" "))]);
    let got = grants(all.client.finish().unwrap()).unwrap();
    assert!(got.fences[0] / 1000 >= ends && got.holds == [1; 100]);
    assert!(one.is_blocked(&mut client));
    free(&mut client, "k99", "bob");
    one.granted();
}
