//! Each grant lapses by itself.

use super::{count, holds, release, waits};
use crate::support::{Listener, Server, grant, server_time, transaction};

/// A server whose own search for what has expired finds nothing: what the module misses, nothing makes up for.
fn alone() -> Server {
    let server = Server::start();
    server.client().ask::<()>("DEBUG SET-ACTIVE-EXPIRE 0");
    server
}

/// Leases of three holders that end in another order than they began.
const LEASES: [(&str, i64); 3] = [("a", 250), ("b", 400), ("c", 100)];

#[test]
fn one_after_the_other_until_the_lock_is_free() {
    let (server, mut client) = Server::and_client();
    let mut listener = Listener::new(&server, "Ed");
    let asks = LEASES.map(|(owner, lease)| format!("LOCK.ACQUIRE k OWNER {owner} SHARED PX {lease}"));
    transaction(&mut client, &asks.each_ref().map(String::as_str));
    assert_eq!(listener.next::<3>(), ["lock.acquired k"; 3]);
    // Nobody looks before the key is gone: one event for all.
    assert_eq!(listener.next::<1>(), ["lock.lapsed k"]);
    assert_eq!(client.holders("k"), []);
    assert_eq!(client.ask::<i64>("EXISTS k"), 0);
    assert_eq!(count(&mut client, "lock_lapses"), 3);
}

/// It wakes who waits for room, at once and not before.
#[test]
fn it_makes_room_for_one_who_waits() {
    let server = alone();
    let mut client = server.client();
    holds(&mut client, "a", "LIMIT 2");
    holds(&mut client, "b", "LIMIT 2");
    let mut c = waits(&server, "c", "LIMIT 2");
    let mut d = waits(&server, "d", "LIMIT 2");
    let ends = server_time(&mut client) + 300;
    client.ask::<()>("LOCK.EXTEND k a PX 300");
    let granted = grant(c.client.finish().unwrap()).unwrap();
    assert!(granted.granted_at() >= ends, "{granted:?} before {ends}");
    assert_eq!(client.holding("k"), ["b", "c"]);
    assert!(d.is_blocked(&mut client));
    release(&mut client, "b");
    d.granted();
}
