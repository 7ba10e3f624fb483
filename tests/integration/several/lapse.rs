//! Leases that run out, and those who wait for several.

use super::{count, free, grants, holds, holds_one, waits};
use crate::support::{Client, Server, grant, lease_end_after, owners, wait_for};

/// What is granted by a lapse is not granted early; whoever is last.
#[test]
fn the_last_lease_to_end_lets_it_come_and_not_early() {
    let (server, mut client) = Server::and_client();
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

/// A reserved lock does not lapse: nobody holds it. Those behind come when the time of who waits in front is up.
#[test]
fn the_time_of_a_wait_ends_its_reservation() {
    let (server, mut client) = Server::and_client();
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
