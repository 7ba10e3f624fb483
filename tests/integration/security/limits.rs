//! Limits hold, also where they are set while many wait.

use redis::Value;

use crate::support::{Client, Server, Setup, Waiter, blocked_clients, figure, grant, owners, size, wait_for};

#[test]
fn an_owner_is_128_bytes_at_most_wherever_it_stands() {
    let server = Server::start();
    let mut client = server.client();
    let (most, more) = ("x".repeat(128), "x".repeat(129));
    client.acquire("k", &format!("OWNER {most}")).unwrap();
    for line in [
        format!("LOCK.ACQUIRE free OWNER {more}"),
        format!("LOCK.ACQUIRE k OWNER {more} BLOCK 0"),
        format!("LOCK.RELEASE k {more}"),
        format!("LOCK.EXTEND k {more}"),
        format!("LOCK.RELEASE k {}", "x".repeat(1_000_000)),
    ] {
        assert_eq!(client.refused(&line), "ERR owner must be 1 to 128 bytes long");
    }
    assert_eq!(client.ask::<i64>(&format!("LOCK.RELEASE k {most}")), 0);
}

/// Those who wait stay; no more come than the new limit allows.
#[test]
fn a_lower_limit_of_waiters_sends_nobody_away_and_lets_nobody_in() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire("k", "OWNER alice PX 600000").unwrap();
    let mut waiters: Vec<Waiter> =
        (0..5).map(|number| Waiter::new(&server, "k", &format!("OWNER w{number}"))).collect();
    client.ask::<()>("CONFIG SET lock.max-waiters 2");
    let full = "MAXWAITERS the queue of this lock is full (lock.max-waiters)";
    for (number, waiter) in waiters.iter_mut().enumerate() {
        assert_eq!(client.refused("LOCK.ACQUIRE k OWNER late BLOCK 0"), full);
        assert_eq!(owners(&mut client, "k").len(), 5 - number);
        let holder = client.holder("k").unwrap().owner;
        client.ask::<i64>(&format!("LOCK.RELEASE k {holder}"));
        assert_eq!(waiter.granted().owner, format!("w{number}"));
        if 5 - number - 1 < 2 {
            break;
        }
    }
    drop(Waiter::new(&server, "k", "OWNER late"));
}

/// The longest lease there can be is that of the moment of the grant, not of the moment of the question: a failover counts
/// on it.
#[test]
fn a_lower_longest_lease_holds_for_those_who_wait_already() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire("k", "OWNER alice PX 600000").unwrap();
    let beyond = client.ttl_beyond_lease();
    let mut bob = Waiter::new(&server, "k", "OWNER bob PX 600000");
    let mut again = Waiter::new(&server, "k", "OWNER bob PX 700000");
    let mut carol = Waiter::new(&server, "k", "OWNER carol PX 600000 SESSION");
    client.ask::<()>("CONFIG SET lock.default-lease 5000 lock.max-lease 50000");
    client.ask::<i64>("LOCK.RELEASE k alice");
    assert!(bob.granted().lease <= 50_000);
    assert!(again.granted().lease <= 50_000);
    assert!(client.ask::<i64>("PTTL k") <= 50_000 + beyond);
    client.ask::<i64>("LOCK.RELEASE k bob ALL");
    assert!(carol.granted().lease <= 50_000);
    assert!(client.ask::<i64>("PTTL k") <= 50_000 + beyond);
}

#[test]
fn a_lower_greatest_age_holds_for_those_who_wait_already() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire("k", "OWNER alice PX 600000").unwrap();
    let mut bob = Waiter::new(&server, "k", "OWNER bob PX 600000 MAXHOLD 500000");
    client.ask::<()>("CONFIG SET lock.max-hold 40000");
    client.ask::<i64>("LOCK.RELEASE k alice");
    assert!(bob.granted().lease <= 40_000);
    assert!(client.ask::<i64>("LOCK.EXTEND k bob PX 600000") <= 40_000);
}

/// Settings that change all the time while locks go from hand to hand: each waiter is answered.
#[test]
fn settings_that_change_while_locks_change_hands() {
    let server = Server::start();
    let mut client = server.client();
    for round in 0..size(200, 5_000) {
        client.acquire("k", "OWNER alice PX 50 ONCE");
        let mut waiters: Vec<Client> = (0..3).map(|_| server.client()).collect();
        for (number, waiter) in waiters.iter_mut().enumerate() {
            waiter.begin(&format!("LOCK.ACQUIRE k OWNER w{number} PX 20 BLOCK 0"));
        }
        let (lease, hold, most) = (1 + round % 50, round % 3 * 20, round % 4);
        client.ask::<()>(&format!(
            "CONFIG SET lock.default-lease {lease} lock.max-lease {lease} lock.max-hold {hold} lock.max-waiters {most} \
             lock.failover-grace {hold}"
        ));
        let _ = client.send("LOCK.RELEASE k alice ALL");
        client.ask::<()>(
            "CONFIG SET lock.failover-grace 0 lock.max-lease 0 lock.max-hold 0 lock.max-waiters 0",
        );
        for (number, mut waiter) in waiters.into_iter().enumerate() {
            match waiter.finish() {
                Ok(reply) => assert_eq!(grant(reply).unwrap().owner, format!("w{number}")),
                Err(error) => {
                    assert!(error.starts_with("MAXWAITERS") || error.starts_with("ERR value"), "{error}")
                }
            }
        }
    }
    wait_for("nobody to wait", || client.info("lock", "lock_waiters") == "0");
}

/// One waiter on each of many locks, all freed at once.
#[test]
fn many_waiters_on_as_many_locks() {
    let count = size(400, 4_000);
    let server = Setup::new().set("maxclients", "10000").start();
    let mut client = server.client();
    let lines: Vec<String> = (0..count).map(|n| format!("LOCK.ACQUIRE k{n} OWNER alice PX 600000")).collect();
    client.ask_all::<Value, _>(&lines);
    let mut waiters: Vec<Client> = (0..count).map(|_| server.client()).collect();
    for (number, waiter) in waiters.iter_mut().enumerate() {
        waiter.begin(&format!("LOCK.ACQUIRE k{number} OWNER bob PX 600000 BLOCK 0"));
    }
    wait_for("all to wait", || blocked_clients(&mut client) == count as i64);
    client.ask::<()>("FLUSHALL");
    let mut fences: Vec<i64> =
        waiters.iter_mut().map(|waiter| grant(waiter.finish().unwrap()).unwrap().fence).collect();
    fences.sort_unstable();
    fences.dedup();
    assert_eq!(fences.len(), count, "a fence was given twice");
    assert_eq!(client.ask::<usize>("DBSIZE"), count);
    figure("waiters on as many locks, freed at once", count);
}
