//! Limits hold, also where they are set while many wait.

use crate::support::{Client, Server, Waiter, grant, size, wait_for};

/// The longest lease there can be is that of the moment of the grant, not of the moment of the question: a failover counts
/// on it.
#[test]
fn a_lower_longest_lease_holds_for_those_who_wait_already() {
    let (server, mut client) = Server::held();
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
    let (server, mut client) = Server::held();
    let mut bob = Waiter::new(&server, "k", "OWNER bob PX 600000 MAXHOLD 500000");
    client.ask::<()>("CONFIG SET lock.max-hold 40000");
    client.ask::<i64>("LOCK.RELEASE k alice");
    assert!(bob.granted().lease <= 40_000);
    assert!(client.ask::<i64>("LOCK.EXTEND k bob PX 600000") <= 40_000);
}

/// Settings that change all the time while locks go from hand to hand: each waiter is answered.
#[test]
fn settings_that_change_while_locks_change_hands() {
    let (server, mut client) = Server::and_client();
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
