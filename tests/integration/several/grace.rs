//! `lock.failover-grace`: nothing new within it, and all at its end.

use super::{ask, count, free, granted, grants, holders, holds, holds_one, release, waits, waits_for_one};
use crate::support::{Client, Server, Setup, transaction};

const GRACE: &str = "GRACE new grants resume in ";

/// A server with locks that were taken before its grace began.
fn in_grace(ms: i64) -> (Server, Client) {
    let (server, mut client) = Server::and_client();
    holds(&mut client, "a b", "alice", "");
    client.ask::<()>(&format!("CONFIG SET lock.failover-grace {ms}"));
    (server, client)
}

#[test]
fn nothing_new_and_nothing_of_the_rest() {
    let (_server, mut client) = in_grace(600_000);
    let before = client.snapshot();
    for keys in ["free", "a free", "free b a"] {
        let line = ask(keys, "alice", "");
        assert!(client.refused(&line).starts_with(GRACE), "{line}");
        assert!(transaction(&mut client, &[&line])[0].clone().unwrap_err().starts_with(GRACE), "{line}");
    }
    // One of them is another's: it would not be granted anyway.
    assert_eq!(super::take(&mut client, "a free", "bob", ""), None);
    assert_eq!(client.snapshot(), before);
    assert_eq!(holds(&mut client, "a b", "alice", "").holds, [2, 2]);
    assert_eq!(client.ask::<i64>("LOCK.MEXTEND 2 a b alice PX 700000"), 700_000);
    assert_eq!(release(&mut client, "b a free", "alice"), [Some(1), Some(1), None]);
}

#[test]
fn its_end_lets_in_who_waits() {
    let (server, mut client) = in_grace(600_000);
    let mut free_ones = waits(&server, "x y", "bob", "");
    let mut some = waits(&server, "a x", "alice", "");
    let mut one = waits_for_one(&server, "y", "carol");
    release(&mut client, "a b", "alice");
    let mut last = waits(&server, "b a", "dave", "");
    for waiter in [&free_ones, &some, &one, &last] {
        assert!(waiter.is_blocked(&mut client));
    }
    client.ask::<()>("CONFIG SET lock.failover-grace 0");
    granted(&mut free_ones);
    assert!(one.is_blocked(&mut client) && last.is_blocked(&mut client));
    release(&mut client, "x y", "bob");
    one.granted();
    granted(&mut some);
    release(&mut client, "a x", "alice");
    granted(&mut last);
}

/// After a start with the locks of a file, and after a promotion.
#[test]
fn after_a_start_and_a_failover() {
    let setup = || Setup::new().module_args("failover-grace 600000");
    let mut server = setup().start();
    let mut client = server.client();
    client.ask::<()>("CONFIG SET lock.failover-grace 0");
    let all = holds(&mut client, "a b", "alice", "");
    client.ask::<()>("SAVE");
    let replica = server.replica_with(setup());
    server.kill_and_restart();
    replica.client().ask::<()>("REPLICAOF NO ONE");
    for server in [&server, &replica] {
        let mut client = server.client();
        assert!(client.refused(&ask("a c", "alice", "")).starts_with(GRACE));
        let again = holds(&mut client, "b a", "alice", "ONCE");
        assert_eq!((again.fences, again.holds), (all.fences.clone(), vec![1, 1]));
        let mut waiter = waits(server, "a b c", "bob", "");
        release(&mut client, "a b", "alice");
        assert!(waiter.is_blocked(&mut client));
        client.ask::<()>("CONFIG SET lock.failover-grace 0");
        assert!(granted(&mut waiter).fences[0] > all.fences[0]);
        assert_eq!(count(&mut client, "lock_waiters"), 0);
    }
}

/// The clients are paused by an operator: the handover comes when that is over.
#[test]
fn a_pause_keeps_it_waiting() {
    let (server, mut client) = Server::and_client();
    holds(&mut client, "a b", "alice", "");
    let waiter = waits(&server, "a b", "bob", "");
    transaction(&mut client, &["LOCK.MEXTEND 2 a b alice PX 300", "CLIENT PAUSE 100000 WRITE"]);
    crate::support::wait_for("the lapse", || holders(&mut client, ["a", "b"]) == ["-", "-"]);
    assert!(waiter.is_blocked(&mut client));
    client.ask::<()>("CLIENT UNPAUSE");
    let mut waiter = waiter;
    assert_eq!(grants(waiter.client.finish().unwrap()).unwrap().holds, [1, 1]);
    free(&mut client, "a", "bob");
}

/// What the server would refuse as a write it refuses the handover too, and makes it afterwards.
#[test]
fn too_few_replicas_only_delay_it() {
    let (server, mut client) = Server::and_client();
    holds_one(&mut client, "a", "alice");
    holds_one(&mut client, "b", "alice");
    let mut waiter = waits(&server, "a b", "bob", "");
    free(&mut client, "a", "alice");
    transaction(&mut client, &["PEXPIRE b 300", "CONFIG SET min-replicas-to-write 1"]);
    crate::support::wait_for("the lapse", || holders(&mut client, ["b"]) == ["-"]);
    let now = crate::support::server_time(&mut client);
    crate::support::wait_until(&mut client, now + 250);
    assert!(waiter.is_blocked(&mut client));
    client.ask::<()>("CONFIG SET min-replicas-to-write 0");
    granted(&mut waiter);
}
