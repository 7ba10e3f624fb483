//! From the message to the claim; and grants that nobody claims.

use std::time::Duration;

use redis::Value;

use super::{ask, queue_up};
use crate::support::{Client, Mailbox, SOON, Setup, Stopwatch, Waiter, grant, is_left_of, owners, wait_for};

/// Bob waits for `k` on this connection, gets it from alice, and is told.
#[track_caller]
fn grant_to_bob(client: &mut Client, mail: &mut Mailbox) {
    client.acquire("k", "OWNER alice").unwrap();
    queue_up(client, "bob", "PX 60000");
    client.ask::<()>("LOCK.RELEASE k alice");
    let fence = client.holder("k").unwrap().fence;
    assert_eq!(mail.next(), format!("granted {fence} bob"));
}

#[test]
fn a_claim_gets_the_lease_that_it_asks_for() {
    let (_server, mut client, mut mail) = super::heard("claim 5000");
    grant_to_bob(&mut client, &mut mail);
    let held = client.holder("k").unwrap();
    assert!(is_left_of(5000, &held), "{held:?}");
    let claimed = grant(ask(&mut client, "bob", "PX 60000")).unwrap();
    assert_eq!((claimed.fence, claimed.holds, claimed.lease), (held.fence, 1, 60_000));
    assert_eq!(client.info("lock", "lock_places"), "0");
    assert_eq!(client.ask::<i64>("LOCK.LEAVE k bob"), 0);
    assert_eq!(client.ask::<i64>(&format!("LOCK.RELEASE k bob FENCE {}", held.fence)), 0);
}

#[test]
fn what_is_not_claimed_goes_to_the_next() {
    let (server, mut client, mut mail) = super::held("claim 300");
    queue_up(&mut client, "bob", "PX 60000");
    let mut carol = Waiter::new(&server, "k", "OWNER carol");
    let watch = Stopwatch::start();
    client.ask::<()>("LOCK.RELEASE k alice");
    let granted = grant(carol.client.finish().unwrap()).unwrap();
    let (after, worked, claim) = (watch.elapsed(), watch.worked(), Duration::from_millis(300));
    assert!(after >= claim && worked < claim + SOON, "{after:?}, {worked:?} of it");
    let told = [mail.next(), mail.next()];
    let bobs: i64 = told[0].split(' ').nth(1).unwrap().parse().unwrap();
    assert!(granted.fence > bobs);
    assert_eq!(told, [format!("granted {bobs} bob"), format!("lost {bobs} bob")]);
    wait_for("the place to be given up", || client.info("lock", "lock_places") == "0");
    // It may come late: then it is an ask like any other.
    assert_eq!(client.send("LOCK.ACQUIRE k OWNER bob ONCE"), Ok(Value::Nil));
}

/// With `START`, too.
#[test]
fn a_grant_that_nobody_hears_of_goes_to_the_next_at_once() {
    let (server, mut client) = Setup::new().module_args("claim 600000").start_and_client();
    client.acquire("k", "OWNER alice").unwrap();
    for (owner, options) in [("bob", "PX 60000"), ("carol", "PX 60000 START 1"), ("dave", "PX 60000")] {
        queue_up(&mut client, owner, options);
    }
    let mut erin = Waiter::new(&server, "k", "OWNER erin");
    client.ask::<()>("LOCK.RELEASE k alice");
    erin.granted();
    assert!(owners(&mut client, "k").is_empty());
    assert_eq!(client.info("lock", "lock_places"), "0");
    assert!(client.info("lock", "lock_messages_unheard").parse::<u32>().unwrap() >= 3);
}

/// By whatever ends the grant: the connection may have another place at once.
#[test]
fn a_place_ends_with_the_grant_that_it_was_to_claim() {
    let setup = Setup::new().module_args("claim 600000 max-places 1");
    let server = setup.start();
    let (mut client, mut other) = (server.client(), server.client());
    let mut mail = Mailbox::of(&server, "ch");
    for end in ["LOCK.RELEASE k bob", "LOCK.BREAK k", "DEL k", "FLUSHALL", "PEXPIRE k 1", "SET k text"] {
        grant_to_bob(&mut client, &mut mail);
        assert_eq!(client.info("lock", "lock_places"), "1");
        other.ask::<Value>(end);
        wait_for(&format!("the place to go after {end}"), || other.info("lock", "lock_places") == "0");
        if end != "LOCK.RELEASE k bob" {
            assert!(mail.next().starts_with("lost "), "{end}");
        }
        other.ask::<Value>("FLUSHALL");
    }
}
