//! One order with those who wait for one lock: who comes later stands behind, also on a lock that is free meanwhile.

use redis::Value;

use super::{ask, count, free, gets_null, granted, holders, holds, holds_one, release, waits, waits_for_one};
use crate::support::{Server, grant, owners, transaction};

#[test]
fn a_free_lock_is_reserved_for_who_waits_for_others_too() {
    let (server, mut client) = Server::and_client();
    holds_one(&mut client, "a", "alice");
    let mut all = waits(&server, "free a", "bob", "");
    for options in ["", "SHARED", "LIMIT 9", "ONCE"] {
        gets_null(&mut client, &format!("LOCK.ACQUIRE free OWNER carol {options}"));
        gets_null(&mut client, &ask("free", "carol", options));
        gets_null(&mut client, &ask("other free", "carol", options));
    }
    let mut carol = waits_for_one(&server, "free", "carol");
    free(&mut client, "a", "alice");
    granted(&mut all);
    assert!(carol.is_blocked(&mut client));
    free(&mut client, "free", "bob");
    carol.granted();
}

#[test]
fn single_waiters_in_front_come_first() {
    let (server, mut client) = Server::and_client();
    holds(&mut client, "a b", "alice", "");
    let mut before = waits_for_one(&server, "a", "before");
    let mut all = waits(&server, "a b", "bob", "");
    let mut behind = ["a", "b"].map(|key| waits_for_one(&server, key, "behind"));
    assert_eq!(owners(&mut client, "a"), ["before", "bob", "behind"]);
    assert_eq!(owners(&mut client, "b"), ["bob", "behind"]);
    release(&mut client, "a b", "alice");
    let first = before.granted();
    assert!(all.is_blocked(&mut client) && behind[1].is_blocked(&mut client), "b is reserved");
    assert_eq!(holders(&mut client, ["a", "b"]), ["before", "-"]);
    free(&mut client, "a", "before");
    let second = granted(&mut all);
    assert!(second.fences[0] > first.fence);
    free(&mut client, "b", "bob");
    behind[1].granted();
    free(&mut client, "a", "bob");
    behind[0].granted();
}

/// A chain of waiters: each stands behind the one before on one lock.
#[test]
fn a_chain_is_served_one_by_one() {
    let (server, mut client) = Server::and_client();
    holds_one(&mut client, "k0", "first");
    let mut chain: Vec<_> =
        (0..8).map(|n| waits(&server, &format!("k{n} k{}", n + 1), &format!("o{n}"), "")).collect();
    gets_null(&mut client, "LOCK.ACQUIRE k5 OWNER late");
    free(&mut client, "k0", "first");
    for (n, waiter) in chain.iter_mut().enumerate() {
        granted(waiter);
        // The ones after the next do not come before it.
        assert_eq!(holders(&mut client, ["k7"]), [if n < 6 { "-".into() } else { format!("o{n}") }]);
        assert_eq!(release(&mut client, &format!("k{n} k{}", n + 1), &format!("o{n}")), [Some(0); 2]);
    }
    assert_eq!(client.ask::<i64>("DBSIZE"), 0);
}

/// What is given back in the same step in which it is asked for again: the newcomer stands behind.
#[test]
fn no_newcomer_slips_in_in_the_step_of_a_release() {
    let (server, mut client) = Server::and_client();
    for line in ["LOCK.MRELEASE 2 a b alice", "LOCK.BREAK b", "DEL a b", "FLUSHDB", "PEXPIRE b -1"] {
        holds(&mut client, "a b", "alice", "");
        let mut all = waits(&server, "a b", "bob", "");
        let replies =
            transaction(&mut client, &[line, "LOCK.ACQUIRE b OWNER newcomer", &ask("b a", "new", "")]);
        assert_eq!(replies[1..], [Ok(Value::Nil), Ok(Value::Nil)], "{line}");
        client.ask::<()>("LOCK.BREAK a");
        granted(&mut all);
        client.ask::<()>("FLUSHALL");
    }
}

/// A newcomer stands behind also between a lapse and its discovery.
#[test]
fn no_newcomer_slips_in_after_a_lapse() {
    let (server, mut client) = Server::and_client();
    for _ in 0..20 {
        holds(&mut client, "a b", "alice", "");
        let mut all = waits(&server, "a b", "bob", "");
        let mut newcomer = server.client();
        client.ask::<()>("LOCK.MEXTEND 2 a b alice PX 20");
        loop {
            if let Some(got) = grant(newcomer.ask("LOCK.ACQUIRE b OWNER newcomer")) {
                panic!("{got:?}");
            }
            if client.holder("b").is_some_and(|grant| grant.owner == "bob") {
                break;
            }
        }
        granted(&mut all);
        client.ask::<()>("FLUSHALL");
    }
    assert_eq!(count(&mut client, "lock_handovers"), 40);
}
