//! Holders that hear what becomes of their grant.

use super::{BLOCKED, NOW, ask, name, place, read, run_due};
use crate::lock::Owner;
use crate::waiting::MessageKind;
use crate::waiting::tests::server::{Reply, Rules, Server};

/// The holders that have been told that somebody waits.
fn wanted(server: &mut Server) -> Vec<Owner<'static>> {
    run_due(server, Rules::PLAIN, NOW);
    let wanted = server.messages.drain(..).filter(|message| matches!(message.kind, MessageKind::Wanted(_)));
    wanted.map(|message| message.owner).collect()
}

/// Once for each queue that forms behind them.
#[test]
fn all_holders_hear_that_somebody_waits() {
    let rules = Rules::PLAIN;
    let mut server = Server::new(5);
    for (conn, owner) in (0..).zip(["a", "b", "c"]) {
        let reply = server.acquire(rules, NOW, conn, &read(owner, 1_000), &place(owner, owner != "b"));
        assert!(matches!(reply, Reply::Granted { .. }), "{reply:?}");
    }
    for _ in 0..2 {
        for (conn, told) in [(3, vec![name("a"), name("c")]), (4, Vec::new())] {
            assert_eq!(server.acquire(rules, NOW, conn, &ask("writer", 100, false), &BLOCKED), Reply::Waits);
            assert_eq!(wanted(&mut server), told);
        }
        for conn in [3, 4] {
            assert_eq!(server.unblock(rules, NOW, conn, true), [(conn, Reply::Unblocked)]);
        }
    }
}
