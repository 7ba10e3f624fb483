//! A place in the queue: taken, kept, given up.

use std::time::{Duration, Instant};

use super::queue_up;
use crate::support::owners;

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
