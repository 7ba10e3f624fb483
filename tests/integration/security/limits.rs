//! Limits are kept, also if they change while many clients wait.

use crate::support::{Client, Server, grant, size, wait_for};

/// Settings change all the time while locks change hands: each waiter must be answered.
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
