//! Keyspace events: one for each grant.

use super::{holds, readers, release, waits};
use crate::support::{Listener, Server};

fn lock_events<const N: usize>(names: [&str; N]) -> [String; N] {
    names.map(|name| format!("lock.{name} k"))
}

#[test]
fn each_grant_has_its_own() {
    let server = Server::start();
    let mut client = server.client();
    let mut listener = Listener::new(&server, "Ed");
    let [_, b] = readers(&mut client, ["a", "b"]);
    holds(&mut client, "c", "LIMIT 3");
    client.ask::<()>("LOCK.EXTEND k b PX 700000");
    release(&mut client, "a");
    client.ask::<()>(&format!("LOCK.BREAK k FENCE {}", b.fence));
    release(&mut client, "c");
    let expected = ["acquired", "acquired", "acquired", "extended", "released", "broken", "released"];
    assert_eq!(listener.next(), lock_events(expected));
    listener.nothing_but(&server, &[]);
}

#[test]
fn re_entries_and_upgrades_are_none() {
    let server = Server::start();
    let mut client = server.client();
    readers(&mut client, ["a", "b"]);
    let listener = Listener::new(&server, "Ed");
    readers(&mut client, ["a"]);
    holds(&mut client, "a", "LIMIT 2 ONCE");
    let mut upgrade = waits(&server, "a", "");
    release(&mut client, "b");
    upgrade.granted();
    let _ = client.acquire("k", "OWNER c SHARED");
    listener.nothing_but(&server, &["lock.released k"]);
}

#[test]
fn heads_that_come_together_are_one_each() {
    let server = Server::start();
    let mut client = server.client();
    holds(&mut client, "w", "");
    let mut waiters = ["a", "b", "c"].map(|owner| waits(&server, owner, "SHARED"));
    let mut listener = Listener::new(&server, "Ed");
    release(&mut client, "w");
    for waiter in &mut waiters {
        waiter.granted();
    }
    assert_eq!(listener.next(), lock_events(["released", "acquired", "acquired", "acquired"]));
    listener.nothing_but(&server, &[]);
}

/// What the server itself says of the key is the same as for a plain lock.
#[test]
fn the_servers_own_come_with_the_first_and_the_last_only() {
    let server = Server::start();
    let mut client = server.client();
    let mut own = |options: &str, owners: &[&str]| {
        let mut listener = Listener::new(&server, "EAn");
        for owner in owners {
            holds(&mut client, owner, options);
        }
        for owner in owners {
            release(&mut client, owner);
        }
        let mut events = listener.rest(&server);
        events.retain(|event| !event.starts_with("lock."));
        events
    };
    let plain = own("", &["a"]);
    assert_eq!(own("SHARED", &["a", "b", "c"]), plain);
}
