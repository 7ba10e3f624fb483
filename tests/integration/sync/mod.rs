//! `SYNC`: a client is told of its grant only when replicas have it.

mod confirmed;
mod input;
mod meanwhile;
mod restarted;
mod session;
mod unconfirmed;

use crate::support::{Client, Grant, Server, grant, soon, wait_for};

const NO_REPLICAS: &str =
    "NOREPLICAS too few replicas confirmed in time: what this command added was taken back";

/// Returns a primary, a replica in sync, and a client of each.
fn pair() -> (Server, Server, Client, Client) {
    let primary = Server::start();
    let replica = primary.replica();
    in_step(&primary, 1);
    let (client, there) = (primary.client(), replica.client());
    (primary, replica, client, there)
}

/// Waits until this many replicas have reported their offset. A new replica does so within a second, and receives nothing before.
#[track_caller]
fn in_step(primary: &Server, replicas: usize) {
    let mut client = primary.client();
    wait_for("replicas that confirm", || {
        (0..replicas).all(|number| {
            let line = client.info("replication", &format!("slave{number}"));
            line.contains("state=online") && !line.contains("offset=0,")
        })
    });
}

/// Returns a grant that the replica has confirmed. It tries again, because the timeout of the test is short.
#[track_caller]
fn confirmed(client: &mut Client, words: &str) -> Grant {
    let line = format!("LOCK.ACQUIRE k {words}");
    let mut told = None;
    wait_for("a confirmed grant", || {
        told = client.send(&line).ok();
        told.is_some()
    });
    told.and_then(grant).expect("a grant")
}

/// Waits until this many clients and renewals wait for replicas.
#[track_caller]
fn wait_for_syncing(client: &mut Client, count: u32) {
    soon("somebody waits for replicas", || client.info("lock", "lock_syncing") == count.to_string());
}
