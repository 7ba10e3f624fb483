//! From the message to the claim; unclaimed grants, and waits that have ended.

use std::time::{Duration, Instant};

use redis::Value;

use super::queue_up;
use crate::support::{SOON, Setup, Stopwatch, Waiter, grant, owners, wait_for};

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
    // The claim may come too late: then it is an ordinary request.
    assert_eq!(client.send("LOCK.ACQUIRE k OWNER bob ONCE"), Ok(Value::Nil));
}

/// With `START`, too, such a grant goes to the next waiter.
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

#[test]
fn a_wait_that_is_over_is_told_and_not_early() {
    let (_server, mut client, mut mail) = super::held("");
    let began = Instant::now();
    queue_up(&mut client, "bob", "BLOCK 150");
    assert_eq!(mail.next(), "timeout bob");
    assert!(began.elapsed() >= Duration::from_millis(150));
    assert!(owners(&mut client, "k").is_empty());
    assert_eq!(client.info("lock", "lock_timeouts"), "1");
    assert_eq!(client.info("lock", "lock_places"), "0");
}
