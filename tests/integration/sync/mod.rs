//! `SYNC`: who asks for it hears of its grant once replicas have it.

mod confirmed;
mod input;
mod meanwhile;
mod restarted;
mod session;
mod unconfirmed;

use crate::support::{Client, Grant, Server, grant, soon, wait_for};

const NO_REPLICAS: &str =
    "NOREPLICAS too few replicas confirmed in time: what this command added was taken back";

/// A primary, a replica that has its data set, and a client of each.
fn pair() -> (Server, Server, Client, Client) {
    let primary = Server::start();
    let replica = primary.replica();
    in_step(&primary, 1);
    let (client, there) = (primary.client(), replica.client());
    (primary, replica, client, there)
}

/// Waits until so many replicas have said how far they are. A new one does so after up to a second, and is sent nothing before.
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

/// A grant that the replica has confirmed. It is asked for until it is, with the short time that the test needs.
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

/// Waits until so many clients and renewals wait for replicas.
#[track_caller]
fn wait_for_syncing(client: &mut Client, count: u32) {
    soon("somebody waits for replicas", || client.info("lock", "lock_syncing") == count.to_string());
}
