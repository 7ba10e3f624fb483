//! What takes too long for a small world, and is too rare for a history.

use super::server::{Reply, Rules, Server, Writes};
use crate::lock::{Ask, Millis, Owner};
use crate::waiting::Wait;

const NOW: Millis = 1_700_000_000_000;

/// A server that was away for more than a second may have been replaced, and its successor have granted the lock. One that
/// stood still for less gives its session the lease back.
#[test]
fn a_server_that_was_away_gives_no_session_its_lease_back() {
    let rules = Rules { grace: 2000, max_lease: Some(500), ..Rules::PLAIN };
    let owner = Owner::new(b"a").unwrap();
    let ask = Ask { owner, lease: 300, max_hold: None, once: false, session: true };
    for (away, is_held) in [(1000, true), (1001, false)] {
        let mut server = Server::new(1);
        let reply = server.acquire(rules, NOW, 0, &ask, &Wait::default());
        assert!(matches!(reply, Reply::Granted { .. }));
        server.ring(rules, NOW + away, Writes::Taken);
        assert_eq!(server.held(NOW + away).is_some(), is_held);
    }
}
