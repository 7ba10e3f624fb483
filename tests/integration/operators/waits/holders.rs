//! `LOCK.WAITS` shows the holders for whom a client waits.

use super::{only, queue_up, waits};
use crate::support::{Client, Server, Setup, Waiter, server_time, transaction, wait_for, wait_until};

#[test]
fn the_holder_is_shown_with_what_it_takes_to_end_its_grant() {
    let (server, [mut client, mut holder]) = Server::and_clients();
    let id: i64 = holder.ask("CLIENT ID");
    let fence = client.acquire("plain", "OWNER alice PX 600000").unwrap().fence;
    holder.acquire("bound", "OWNER carol PX 600000 SESSION").unwrap();
    let _waiters = ["plain", "bound"].map(|key| Waiter::new(&server, key, "OWNER bob"));
    let shown = only(&mut client, "KEY plain");
    assert_eq!(shown.number("holders-count"), 1);
    let alice = &shown.holders()[0];
    assert_eq!((alice.text("owner"), alice.number("fence")), ("alice".into(), fence));
    assert_eq!(alice.number("client-id"), 0);
    let lease = alice.number("lease-ms");
    assert!((500_000..=600_000).contains(&lease), "{lease}");
    let held = alice.number("held-ms");
    wait_for("20 ms more", || only(&mut client, "KEY plain").holders()[0].number("held-ms") >= held + 20);
    let bound = only(&mut client, "KEY bound");
    assert_eq!(bound.holders()[0].number("client-id"), id);
    assert_eq!(client.ask::<i64>(&format!("LOCK.BREAK plain FENCE {fence}")), 1);
    client.ask::<i64>(&format!("CLIENT KILL ID {id}"));
    wait_for("nobody to wait", || waits(&mut client, "").is_empty());
}

#[test]
fn of_many_holders_ten_are_shown_and_all_are_counted() {
    let (server, mut client) = Server::and_client();
    for reader in 0..25 {
        client.acquire("k", &format!("OWNER r{reader} SHARED PX 600000")).unwrap();
    }
    let _writer = Waiter::new(&server, "k", "OWNER writer");
    let shown = only(&mut client, "");
    assert_eq!(shown.number("holders-count"), 25);
    let first: Vec<String> = (0..10).map(|reader| format!("r{reader}")).collect();
    assert_eq!(shown.holding(), first);
}

/// `LOCK.WAITS` must not count as a use of the key.
#[test]
fn a_look_by_lock_waits_leaves_no_trace() {
    let server = Setup::new().set("maxmemory-policy", "allkeys-lfu").start();
    let (mut client, mut places) = (server.client(), server.client());
    client.acquire("k", "OWNER alice PX 600000").unwrap();
    queue_up(&mut places, "k", "bob", "");
    let counted =
        |client: &mut Client| ["keyspace_hits", "keyspace_misses"].map(|field| client.info("stats", field));
    // This command looks at the key itself, so it comes before.
    let used: i64 = client.ask("OBJECT FREQ k");
    let before = counted(&mut client);
    for _ in 0..50 {
        only(&mut client, "");
    }
    // Redis 7.0 counts all look-ups of keys.
    if client.version() >= (7, 2) {
        assert_eq!(counted(&mut client), before);
    }
    assert_eq!(client.ask::<i64>("OBJECT FREQ k"), used, "the key was used");
}

/// The server deletes no expired keys here, and a pause delays the handover. The expired holder must not be shown.
#[test]
fn a_holder_whose_lease_is_over_is_none() {
    let (_server, [mut client, mut places]) = Server::and_clients();
    client.ask::<()>("DEBUG SET-ACTIVE-EXPIRE 0");
    client.acquire("k", "OWNER alice PX 600000").unwrap();
    client.acquire("s", "OWNER alice SHARED PX 600000").unwrap();
    client.acquire("s", "OWNER carol SHARED PX 600000").unwrap();
    queue_up(&mut places, "k", "bob", "");
    queue_up(&mut places, "s", "dave", "");
    transaction(
        &mut client,
        &["LOCK.EXTEND k alice PX 300", "LOCK.EXTEND s alice PX 300", "CLIENT PAUSE 60000 WRITE"],
    );
    let now = server_time(&mut client);
    wait_until(&mut client, now + 400);
    let shown = waits(&mut client, "");
    assert_eq!(shown[0].holding(), [""; 0]);
    assert_eq!(shown[1].holding(), ["carol"]);
    let counts: Vec<i64> = shown.iter().map(|shown| shown.number("holders-count")).collect();
    assert_eq!(counts, [0, 1]);
    client.ask::<()>("CLIENT UNPAUSE");
}

/// An upgrade waits for the other readers, and its owner is itself a holder.
#[test]
fn an_upgrade_is_among_those_it_waits_for() {
    let (server, mut client) = Server::and_client();
    client.acquire("k", "OWNER alice SHARED PX 600000").unwrap();
    client.acquire("k", "OWNER bob SHARED PX 600000").unwrap();
    let _upgrade = Waiter::new(&server, "k", "OWNER bob");
    let shown = only(&mut client, "");
    assert_eq!((shown.text("owner"), shown.text("mode")), ("bob".into(), "exclusive".into()));
    assert_eq!(shown.holding(), ["alice", "bob"]);
}

#[test]
fn a_key_that_holds_something_else_has_no_holder() {
    let (_server, [mut client, mut places]) = Server::and_clients();
    client.acquire("k", "OWNER alice PX 600000").unwrap();
    queue_up(&mut places, "k", "bob", "");
    // Both commands run in one step, because the waiter is sent away afterwards.
    let replies = crate::support::transaction(&mut client, &["SET k text", "LOCK.WAITS"]);
    let (_, each): (String, Vec<std::collections::HashMap<String, redis::Value>>) =
        crate::support::convert(replies[1].clone().unwrap());
    assert_eq!(super::Shown(each[0].clone()).number("holders-count"), 0);
    wait_for("the waiter to be sent away", || waits(&mut client, "").is_empty());
}
