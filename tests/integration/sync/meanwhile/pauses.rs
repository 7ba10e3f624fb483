//! `CLIENT PAUSE`: the primary asks replicas only after the pause.

use super::{Pair, told, unconfirmed};
use crate::support::{Client, Waiter, wake};

/// The pauses end by themselves, because `CLIENT UNPAUSE` would also have to wait.
const PAUSES: [&str; 2] = ["CLIENT PAUSE 800 WRITE", "CLIENT PAUSE 800 ALL"];

fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

/// Alice's lock is handed to bob, who asked with these options, and the server is paused in the same step.
fn hand_over_and_pause(pair: &Pair, client: &mut Client, options: &str, pause: &str) -> Waiter {
    client.acquire("k", "OWNER alice PX 60000").unwrap();
    let bob = Waiter::new(&pair.primary, "k", &format!("OWNER bob PX 60000 {options}"));
    client.begin_together(&[words("LOCK.RELEASE k alice"), words(pause)]);
    for _ in 0..2 {
        client.finish().unwrap();
    }
    bob
}

#[test]
fn a_handover_before_it_is_confirmed_after_it() {
    for pause in PAUSES {
        let pair = Pair::start();
        let mut client = pair.primary.client();
        let mut bob = hand_over_and_pause(&pair, &mut client, "SYNC 1 25000", pause);
        let granted = told(&mut bob);
        assert!(granted.lease <= 60_000 - 700, "{pause}: told after {} ms", 60_000 - granted.lease);
        assert_eq!(pair.replica.client().holder("k").unwrap().fence, granted.fence);
    }
}

/// The primary has asked the replica before the pause.
#[test]
fn nobody_is_left_waiting_by_a_pause() {
    for pause in PAUSES {
        let pair = Pair::stopped();
        let mut client = pair.primary.client();
        let mut alice = unconfirmed(&pair.primary, "LOCK.ACQUIRE k OWNER alice PX 60000 SYNC 1 25000");
        client.ask::<()>(pause);
        wake(&pair.replica);
        assert_eq!(told(&mut alice).owner, "alice", "{pause}");
    }
}
