//! Runs the worlds of `waiting` over these rules.

#![allow(clippy::duplicate_mod, reason = "the same worlds, over two cores")]

mod beside;
mod server;
mod table;
#[path = "../../waiting/tests/together/mod.rs"]
mod together;
#[path = "../../waiting/tests/world/mod.rs"]
mod world;
#[path = "../../waiting/tests/worlds/mod.rs"]
mod worlds;

use crate::lock::{AcquireRequest, Owner};
use crate::waiting::tests::{explore, soak};
use crate::waiting::{Channel, WaitOptions};

/// Whether a session outlives a freeze of the server that is longer than its lease.
const OUTLIVES: bool = false;

/// Places of one owner are granted a lock together, and are all claimed by one command, which must not take long.
#[test]
fn one_claim_is_that_of_a_few_places() {
    let (rules, now) = (server::Rules { claim: 100, ..server::Rules::PLAIN }, 1_700_000_000_000);
    let mut server = server::Server::new(1);
    let ask = |who: &[u8]| AcquireRequest::new(Owner::new(who).unwrap().into_owned(), 1_000);
    server.acquire_on(rules, now, 0, 0, &ask(b"a"), &WaitOptions::default());
    let channel = Some(Channel { address: b"b".as_slice().into(), wanted: false, start: None });
    let place = WaitOptions { timeout: Some(0), channel, ..WaitOptions::default() };
    (0..40).for_each(|_| _ = server.acquire_on(rules, now, 0, 0, &ask(b"b"), &place));
    server.release(rules, now, &ask(b"a").owner, None, true);
    server.run_all_due(rules, now);
    assert_eq!(server.asks().len(), 8);
    let claim = AcquireRequest { once: true, ..ask(b"b") };
    server.acquire_on(rules, now, 0, 0, &claim, &WaitOptions::default());
    server.run_all_due(rules, now);
    assert_eq!(server.asks().len(), 0);
}
