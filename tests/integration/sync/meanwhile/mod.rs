//! What can happen to a grant or an extension while replicas have not confirmed it (`SYNC`). A stopped replica delays its confirmation as
//! long as a test needs.

mod clients;
mod pauses;
mod replicas;
mod roles;

use super::{NO_REPLICAS, in_step, pair};
use crate::support::{Client, Grant, Server, Waiter, freeze, grant, wait_for};

const EXTENSION_UNCONFIRMED: &str = "NOREPLICAS too few replicas confirmed the extension in time";

/// A primary and its replica.
struct Pair {
    primary: Server,
    replica: Server,
}

impl Pair {
    #[track_caller]
    fn start() -> Self {
        let (primary, replica, ..) = pair();
        Self { primary, replica }
    }

    /// Starts a pair whose replica is stopped.
    #[track_caller]
    fn stopped() -> Self {
        let pair = Self::start();
        freeze(&pair.replica);
        pair
    }
}

/// Starts a client that sends this command, and waits for replicas.
#[track_caller]
fn unconfirmed(server: &Server, line: &str) -> Waiter {
    Waiter::of_words(server, server.client(), line.split_whitespace())
}

/// Returns the client's grant; the replica may need a moment.
#[track_caller]
fn told(waiter: &mut Waiter) -> Grant {
    grant(waiter.client.finish().expect("no error")).expect("a grant, not null")
}

/// Checks that the lock becomes free, and that somebody else can get it.
#[track_caller]
fn becomes_free(client: &mut Client, key: &str) {
    wait_for("the end of the grant", || client.lock_info(key).is_none());
    assert!(client.acquire(key, "OWNER zoe").is_some());
}
