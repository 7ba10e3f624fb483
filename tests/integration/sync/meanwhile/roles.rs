//! The primary becomes a replica while grants are unconfirmed.

use super::{Pair, unconfirmed};
use crate::support::{Setup, Waiter, freeze, grant, wait_for};

const ASKS: [&str; 4] = [
    "LOCK.ACQUIRE k0 OWNER alice PX 60000 SYNC 1 25000",
    "LOCK.ACQUIRE k1 OWNER alice PX 60000 SESSION SYNC 1 25000",
    "LOCK.MACQUIRE 2 k2 k3 OWNER alice PX 60000 SYNC 1 25000",
    "LOCK.EXTEND held alice PX 60000 SYNC 1 25000",
];

/// Starts a pair whose replica is stopped, and clients that wait for its confirmation.
fn waiting() -> (Pair, Vec<Waiter>) {
    let pair = Pair::start();
    pair.primary.client().acquire("held", "OWNER alice PX 60000").unwrap();
    freeze(&pair.replica);
    let waiters = ASKS.iter().map(|line| unconfirmed(&pair.primary, line)).collect();
    (pair, waiters)
}

#[test]
fn a_demotion_sends_waiters_for_replicas_away() {
    let (pair, waiters) = waiting();
    let other = Setup::new().start();
    let mut client = pair.primary.client();
    client.ask::<()>(&format!("REPLICAOF 127.0.0.1 {}", other.port()));
    for mut waiter in waiters {
        // The server then closes the connection.
        let error = waiter.client.finish().unwrap_err();
        assert!(error.starts_with("UNBLOCKED "), "{error}");
    }
    // The server is promoted again, and must work normally.
    client.ask::<()>("REPLICAOF NO ONE");
    let replica = pair.primary.replica();
    let again = client.acquire("k9", "OWNER alice SYNC 1 25000").unwrap();
    assert_eq!(replica.client().holder("k9").unwrap().fence, again.fence);
}

/// A client that was told of a grant must have it on the next primary.
#[test]
fn a_planned_failover_keeps_what_was_told() {
    for _ in 0..5 {
        let pair = Pair::start();
        let mut client = pair.primary.client();
        let mut clients: Vec<_> = (0..20).map(|_| pair.primary.client()).collect();
        for (number, asks) in clients.iter_mut().enumerate() {
            if number == 10 {
                client.begin("FAILOVER");
            }
            asks.begin(&format!("LOCK.ACQUIRE k{number} OWNER alice PX 60000 SYNC 1 25000"));
        }
        let mut new = pair.replica.client();
        wait_for("the replica to take over", || new.info("replication", "role") == "master");
        client.finish().unwrap();
        for (number, mut asked) in clients.into_iter().enumerate() {
            match asked.finish() {
                Ok(reply) => {
                    let told = grant(reply).expect("a free lock");
                    assert_eq!(new.holder(&format!("k{number}")).map(|held| held.fence), Some(told.fence));
                }
                Err(error) => {
                    let code = error.split(' ').next();
                    assert!(matches!(code, Some("UNBLOCKED" | "READONLY")), "{error}");
                }
            }
        }
    }
}
