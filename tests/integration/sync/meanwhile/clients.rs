//! Clients that close their connections, or are sent away, while replicas have not confirmed.

use super::{EXTENSION_UNCONFIRMED, NO_REPLICAS, Pair, becomes_free, unconfirmed};
use crate::support::{freeze, wake};

/// Requests for grants of all kinds.
const ASKS: [&str; 4] = [
    "LOCK.ACQUIRE k OWNER alice PX 60000 SYNC 1 25000",
    "LOCK.ACQUIRE k OWNER alice PX 60000 SHARED SYNC 1 25000",
    "LOCK.ACQUIRE k OWNER alice PX 60000 SESSION SYNC 1 25000",
    "LOCK.MACQUIRE 3 other k third OWNER alice PX 60000 SYNC 1 25000",
];

/// Alice is sent away with this answer, and must then hold nothing.
#[track_caller]
fn sent_away(how: &str, answer: &str) {
    for line in ASKS {
        let pair = Pair::stopped();
        let mut client = pair.primary.client();
        let mut alice = unconfirmed(&pair.primary, line);
        assert_eq!(client.ask::<i64>(&format!("CLIENT UNBLOCK {} {how}", alice.id)), 1);
        let error = alice.refused();
        assert!(error.starts_with(answer), "{line}: {error}");
        becomes_free(&mut client, "k");
        if line.contains("third") {
            becomes_free(&mut client, "third");
        }
        // The replica confirms when nobody waits for it any more.
        wake(&pair.replica);
        pair.replica.wait_for_sync_with(&pair.primary);
        assert_eq!(pair.replica.client().holder("k").unwrap().owner, "zoe");
    }
}

#[test]
fn an_operator_ends_the_wait() {
    sent_away("TIMEOUT", NO_REPLICAS);
    sent_away("ERROR", "UNBLOCKED ");
}

#[test]
fn an_operator_ends_the_wait_for_an_extension() {
    let pair = Pair::start();
    let mut client = pair.primary.client();
    let fence = client.acquire("k", "OWNER alice PX 60000").unwrap().fence;
    freeze(&pair.replica);
    for (how, answer) in [("TIMEOUT", EXTENSION_UNCONFIRMED), ("ERROR", "UNBLOCKED ")] {
        let mut alice = unconfirmed(&pair.primary, "LOCK.EXTEND k alice PX 120000 SYNC 1 25000");
        assert_eq!(client.ask::<i64>(&format!("CLIENT UNBLOCK {} {how}", alice.id)), 1);
        let error = alice.refused();
        assert!(error.starts_with(answer), "{error}");
        // The extension is not undone, and the grant stays.
        let held = client.holder("k").unwrap();
        assert_eq!((held.fence, held.holds), (fence, 1));
        assert!(held.lease > 60_000);
    }
}
