//! Sessions whose renewals are confirmed by replicas.

use std::collections::HashMap;

use redis::Value;

use super::{confirmed, in_step, pair, wait_for_syncing};
use crate::support::{
    Client, Mailbox, Proxy, Server, Setup, Stopwatch, Waiter, convert, freeze, server_time, soon,
    transaction, wait_for, wake,
};

/// A primary whose effects can be lost, and its replica.
struct Lossy {
    primary: Server,
    relay: Proxy,
    replica: Server,
}

impl Lossy {
    #[track_caller]
    fn start() -> Self {
        let primary = Server::start();
        let relay = Proxy::to(primary.port());
        let replica = Setup::new().set("replicaof", &format!("127.0.0.1 {}", relay.port())).start();
        in_step(&primary, 1);
        Self { primary, relay, replica }
    }
}

/// Returns when the lease of `k` ends on this server.
#[track_caller]
fn end(client: &mut Client) -> i64 {
    client.ask("PEXPIRETIME k")
}

/// The lease must be renewed on both servers.
#[test]
fn a_session_goes_on_while_the_replica_confirms() {
    let (_primary, _replica, mut client, mut there) = pair();
    let told = confirmed(&mut client, "OWNER alice PX 3000 SESSION SYNC 1 2000");
    let (mut end, mut renewals) = (0, 0);
    wait_for("renewals there too", || {
        assert_eq!(client.holder("k").expect("it is renewed").fence, told.fence);
        assert_eq!(there.holder("k").expect("there too").fence, told.fence);
        let now: i64 = there.ask("PEXPIRETIME k");
        renewals += i32::from(now > end);
        end = now;
        renewals > 3
    });
    soon("all is confirmed", || client.info("lock", "lock_syncing") == "0");
}

/// The primary can't know whether the replica has been promoted, so it lets the lease end when the replica's ends.
#[test]
fn a_session_ends_with_the_lease_that_the_replica_has() {
    let lossy = Lossy::start();
    let (mut alice, mut there) = (lossy.primary.client(), lossy.replica.client());
    let fence = confirmed(&mut alice, "OWNER alice PX 3000 SESSION NOTIFY ch WANTED SYNC 1 800").fence;
    let mut mail = Mailbox::of(&lossy.primary, "ch");
    lossy.relay.lose_effects(true);
    let last = end(&mut there);
    let mut bob = Waiter::new(&lossy.primary, "k", "OWNER bob BLOCK 0");
    let watch = Stopwatch::start();
    assert_eq!(mail.next(), format!("wanted {fence} alice"));
    assert_eq!(mail.next(), format!("lost {fence} alice"));
    let late = server_time(&mut alice) - last;
    assert!((0..watch.allowed()).contains(&late), "it ended {late} ms after the replica's copy");
    assert_eq!(bob.granted().owner, "bob");
}

/// A server that stood still usually keeps its sessions, because it has granted nothing. Here, the new primary has granted the lock.
#[test]
fn a_session_does_not_outlive_a_failover_that_its_server_slept_through() {
    let (primary, replica, mut alice, _) = pair();
    confirmed(&mut alice, "OWNER alice PX 1200 SESSION SYNC 1 800");
    freeze(&primary);
    let mut new = replica.client();
    new.ask::<()>("REPLICAOF NO ONE");
    wait_for("the next grant", || new.acquire("k", "OWNER bob PX 60000").is_some());
    alice.begin("LOCK.INFO k");
    wake(&primary);
    let shown: Option<HashMap<String, String>> = convert(alice.finish().unwrap());
    assert_eq!(shown, None, "alice is told that she still has it");
}

/// Both commands show the lease without the unconfirmed renewal.
#[test]
fn waits_and_info_show_the_same_lease() {
    let lossy = Lossy::start();
    let mut client = lossy.primary.client();
    confirmed(&mut client, "OWNER alice PX 3000 SESSION SYNC 1 2500");
    let _bob = Waiter::new(&lossy.primary, "k", "OWNER bob");
    lossy.relay.lose_effects(true);
    wait_for_syncing(&mut client, 1);
    let end = end(&mut client);
    // Before Redis 7.2, time passes in a transaction, too.
    let replies = transaction(&mut client, &["LOCK.INFO k", "LOCK.WAITS KEY k", "LOCK.INFO k", "TIME"]);
    let [before, waits, after, time]: [Value; 4] =
        replies.into_iter().map(Result::unwrap).collect::<Vec<_>>().try_into().unwrap();
    let lease = |fields: &HashMap<String, String>| fields["lease-ms"].parse::<i64>().unwrap();
    let [before, after] = [before, after].map(|info| lease(&convert(info)));
    let (_, waits): (Value, Vec<HashMap<String, Value>>) = convert(waits);
    let holders: Vec<HashMap<String, String>> = convert(waits[0]["holders"].clone());
    assert!((after..=before).contains(&lease(&holders[0])), "{holders:?}: {after} to {before}");
    let (seconds, micros): (i64, i64) = convert(time);
    assert!(after < end - seconds * 1000 - micros / 1000, "{after}: it is confirmed");
}
