//! Sessions whose renewals replicas confirm: the primary ends the grant when the replicas' copy of it ends.

use std::collections::HashMap;

use super::{Pair, confirmed, in_step};
use crate::support::{
    Client, Mailbox, Proxy, Server, Setup, convert, freeze, server_time, wait_for, wait_until, wake,
};

/// A primary whose effects can get lost, and its replica.
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

/// When the lease of `k` ends, by that server.
#[track_caller]
fn end(client: &mut Client) -> i64 {
    client.ask("PEXPIRETIME k")
}

#[test]
fn it_is_renewed_as_long_as_they_confirm() {
    let pair = Pair::start();
    let (mut alice, mut there) = (pair.primary.client(), pair.replica.client());
    let fence = alice.acquire("k", "OWNER alice PX 3000 SESSION SYNC 1 2000").unwrap().fence;
    let (mut ends, mut renewals) = (0, 0);
    wait_for("renewals", || {
        assert_eq!(alice.holder("k").map(|held| held.fence), Some(fence));
        let now = end(&mut there);
        renewals += i32::from(now > ends);
        ends = now;
        renewals > 4
    });
}

#[test]
fn it_ends_with_the_replicas_copy() {
    let lossy = Lossy::start();
    let (mut alice, mut there) = (lossy.primary.client(), lossy.replica.client());
    let fence = confirmed(&mut alice, "OWNER alice PX 3000 SESSION NOTIFY ch SYNC 1 800").fence;
    let mut mail = Mailbox::of(&lossy.primary, "ch");
    lossy.relay.lose_effects(true);
    let last = end(&mut there);
    assert_eq!(mail.next(), format!("lost {fence} alice"));
    // No later, and the session was not given up before its lease was over.
    let now = server_time(&mut alice);
    assert!(now >= last, "{} ms early", last - now);
    assert_eq!(alice.lock_info("k"), None);
}

#[test]
fn it_goes_on_when_they_are_back_in_time() {
    let pair = Pair::start();
    let mut alice = pair.primary.client();
    let fence = confirmed(&mut alice, "OWNER alice PX 4000 SESSION SYNC 1 800").fence;
    let first = end(&mut alice);
    freeze(&pair.replica);
    // It is renewed, and that is undone. Meanwhile the holder is shown what it can count on.
    wait_for("a renewal", || end(&mut alice) > first);
    let now = server_time(&mut alice);
    let shown = alice.holder("k").unwrap().lease;
    assert!(shown <= first - now, "{shown} ms are shown, {} are sure", first - now);
    wait_for("the renewal to be undone", || end(&mut alice) == first);
    wake(&pair.replica);
    wait_until(&mut alice, first + 1000);
    assert_eq!(alice.holder("k").map(|held| held.fence), Some(fence));
}

/// A server that stands still keeps its sessions: nobody else could have been granted anything. Here somebody was.
#[test]
fn it_does_not_outlive_a_failover_that_its_server_slept_through() {
    let pair = Pair::start();
    let mut alice = pair.primary.client();
    confirmed(&mut alice, "OWNER alice PX 1200 SESSION SYNC 1 800");
    freeze(&pair.primary);
    let mut new = pair.replica.client();
    new.ask::<()>("REPLICAOF NO ONE");
    wait_for("the next grant", || new.acquire("k", "OWNER bob PX 60000").is_some());
    alice.begin("LOCK.INFO k");
    wake(&pair.primary);
    let shown: Option<HashMap<String, String>> = convert(alice.finish().unwrap());
    assert_eq!(shown, None, "alice is told that she still has it");
}

/// The same where the last renewal, which the replica does not have, would still run.
#[test]
fn an_unconfirmed_renewal_keeps_nothing_beyond_the_replicas_copy() {
    let lossy = Lossy::start();
    let mut alice = lossy.primary.client();
    alice.acquire("k", "OWNER alice PX 6000 SESSION SYNC 1 6000").unwrap();
    let first = end(&mut alice);
    lossy.relay.lose_effects(true);
    wait_for("a renewal", || end(&mut alice) > first);
    let second = end(&mut alice);
    freeze(&lossy.primary);
    let mut new = lossy.replica.client();
    new.ask::<()>("REPLICAOF NO ONE");
    wait_for("the next grant", || new.acquire("k", "OWNER bob PX 60000").is_some());
    let now = server_time(&mut new);
    alice.begin("LOCK.INFO k");
    wake(&lossy.primary);
    let shown: Option<HashMap<String, String>> = convert(alice.finish().unwrap());
    assert!(now < second, "too late to tell");
    assert_eq!(shown, None, "alice is told that she still has it");
}
