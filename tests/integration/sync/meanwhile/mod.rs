//! What befalls a grant, or an extension, while replicas are still to confirm it (`SYNC`). A replica that is stopped holds its
//! confirmation back as long as a test wants.

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

    /// The replica stands still from now on.
    #[track_caller]
    fn stopped() -> Self {
        let pair = Self::start();
        freeze(&pair.replica);
        pair
    }
}

/// A client that has sent that, and waits for replicas.
#[track_caller]
fn unconfirmed(server: &Server, line: &str) -> Waiter {
    Waiter::of_words(server, server.client(), line.split_whitespace())
}

/// What the client is told, which may take a replica a moment.
#[track_caller]
fn told(waiter: &mut Waiter) -> Grant {
    grant(waiter.client.finish().expect("no error")).expect("a grant, not null")
}

/// The lock becomes free, and somebody else gets it.
#[track_caller]
fn becomes_free(client: &mut Client, key: &str) {
    wait_for("the end of the grant", || client.lock_info(key).is_none());
    assert!(client.acquire(key, "OWNER zoe").is_some());
}
