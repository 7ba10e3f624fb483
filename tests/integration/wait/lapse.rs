//! When a waiter gets a lock whose lease ends: never early, and soon afterwards; and when its own lease begins.

use crate::support::{Server, Setup, Stopwatch, Waiter, convert, grant, server_time, wait_for};

/// A fence is the time of its grant in microseconds. Redis 8's own expiry also deletes keys in their last millisecond; here it checks all
/// of them every 2 ms.
#[test]
fn a_lapse_is_not_early_by_a_microsecond() {
    const LOCKS: i64 = 60;
    let (server, mut client) =
        Setup::new().set("hz", "500").set("active-expire-effort", "10").start_and_client();
    let mut waiters: Vec<_> = (0..LOCKS).map(|_| server.client()).collect();
    let lines: Vec<String> = (0..LOCKS)
        .map(|number| format!("LOCK.ACQUIRE lock{number} OWNER alice PX {}", 300 + number))
        .collect();
    let held = client.ask_all::<redis::Value, _>(&lines).into_iter().map(|reply| grant(reply).unwrap());
    for (number, waiter) in waiters.iter_mut().enumerate() {
        waiter.begin(&format!("LOCK.ACQUIRE lock{number} OWNER bob BLOCK 0"));
    }
    for (held, mut waiter) in held.zip(waiters) {
        let next = grant(waiter.finish().unwrap()).unwrap();
        let after = next.fence - held.fence;
        assert!(after >= held.lease * 1000, "a lease of {} ms ended after {after} us", held.lease);
    }
}

/// Work that is due later than in 2.5 s has no timer yet; the server's regular cron call sets it, which here runs once a second.
#[test]
fn a_lease_that_ends_in_some_seconds_is_not_late() {
    let (server, mut client) = Setup::new().set("hz", "1").start_and_client();
    // The server's own expiry would also end the lease.
    client.ask::<()>("DEBUG SET-ACTIVE-EXPIRE 0");
    let watch = Stopwatch::start();
    client.acquire("k", "OWNER alice PX 4300").unwrap();
    let mut bob = Waiter::new(&server, "k", "OWNER bob");
    let ends: i64 = client.ask("PEXPIRETIME k");
    wait_for("an answer", || !bob.is_blocked(&mut client));
    let grant = bob.granted();
    assert!(grant.granted_at() >= ends, "{} ms early", ends - grant.granted_at());
    assert!(grant.granted_at() < ends + watch.allowed(), "{} ms late", grant.granted_at() - ends);
}

/// Alice holds `k` for this lease, which the command changes while bob waits. Bob gets the lock at the new end. Both commands run directly
/// after each other.
#[track_caller]
fn waits_until_the_new_end(lease: i64, line: &str) {
    let (_server, mut client, mut bob) = Server::waited_for();
    // The server's own expiry would also end the lease.
    client.ask::<()>("DEBUG SET-ACTIVE-EXPIRE 0");
    let watch = Stopwatch::start();
    let at = (server_time(&mut client) + 1600).to_string();
    let line = line.replace("{at}", &at);
    let extend = format!("LOCK.EXTEND k alice PX {lease}");
    let lines = [&extend[..], "PEXPIRETIME k", &line, "PEXPIRETIME k"];
    client.begin_together(&lines.map(|line| line.split(' ').collect()));
    let [_, before, _, ends] =
        lines.map(|line| client.finish().unwrap_or_else(|error| panic!("{line}: {error}")));
    let (before, ends): (i64, i64) = (convert(before), convert(ends));
    assert_ne!(before, ends, "{line}");
    wait_for("an answer", || !bob.is_blocked(&mut client));
    let grant = bob.granted();
    assert!(grant.granted_at() >= ends, "{line}: {} ms early", ends - grant.granted_at());
    assert!(grant.granted_at() < ends + watch.allowed(), "{line}: {} ms late", grant.granted_at() - ends);
}

#[test]
fn a_lease_that_is_moved_ends_when_the_new_one_does() {
    for line in [
        "LOCK.EXTEND k alice PX 1600",
        "LOCK.ACQUIRE k OWNER alice PX 1600",
        "LOCK.ACQUIRE k OWNER alice ONCE PX 1600",
        "PEXPIRE k 1600",
        "EXPIRE k 2",
        "PEXPIREAT k {at}",
    ] {
        waits_until_the_new_end(1000, line);
    }
    for line in ["LOCK.EXTEND k alice PX 50", "PEXPIRE k 50", "EXPIRE k 1", "PEXPIREAT k {at}"] {
        waits_until_the_new_end(600_000, line);
    }
}

/// The server stands still between the grant and the answer, for longer than the lease.
#[test]
fn a_waiter_that_is_told_after_its_lease_holds_nothing() {
    let (server, mut client) = Server::and_client();
    for lease in ["PX 200", "PX 1000 SESSION"] {
        client.acquire("k", "OWNER alice PX 600000").unwrap();
        let mut bob = Waiter::new(&server, "k", &format!("OWNER bob {lease}"));
        client.begin_together(&[vec!["LOCK.RELEASE", "k", "alice"], vec!["DEBUG", "SLEEP", "1.2"]]);
        client.finish().unwrap();
        client.finish().unwrap();
        assert_eq!(bob.granted().lease, 0, "{lease}");
        assert_eq!(client.info("lock", "lock_sessions"), "0");
        client.acquire("k", "OWNER alice PX 600000").unwrap();
        client.ask::<()>("LOCK.RELEASE k alice");
    }
}

/// The time until this end overflows the server's timers, which must not disturb other timers.
#[test]
fn a_lease_beyond_the_reach_of_timers_is_waited_for() {
    // 2^64 microseconds, and the greatest possible number of ms.
    for deadline in ["18446744073709552", "9223372036854775807"] {
        let (server, mut client) = Server::and_client();
        client.acquire("far", "OWNER alice PX 600000").unwrap();
        assert_eq!(client.ask::<i64>(&format!("PEXPIREAT far {deadline}")), 1);
        let mut bob = Waiter::new(&server, "far", "OWNER bob PX 60000");
        client.acquire("near", "OWNER alice PX 600000").unwrap();
        let mut carol = Waiter::new(&server, "near", "OWNER carol PX 60000");
        assert_eq!(client.ask::<i64>("LOCK.RELEASE near alice"), 0);
        assert_eq!(carol.granted().owner, "carol");
        assert_eq!(client.ask::<i64>("DEL far"), 1);
        assert_eq!(bob.granted().owner, "bob");
    }
}
