//! Clients that wait for a lock over a failover.

use redis::Value;

use super::group::{LONG, patiently};
use crate::support::{Link, Outcome, Server};

/// A client that waits, without limit, for a lock whose owner never gives it back, or for others too.
pub(super) struct Pinned {
    waiter: Link,
    line: String,
}

impl Pinned {
    /// With leases of so many ms.
    pub(super) fn all(server: &Server, lease: u64) -> Vec<Self> {
        let locks = ["ACQUIRE pinned", "MACQUIRE 3 free pinned other"];
        locks.iter().enumerate().map(|(number, locks)| Self::new(server, number, locks, lease)).collect()
    }

    fn new(server: &Server, number: usize, locks: &str, lease: u64) -> Self {
        let open = || Link::to(server.port(), LONG);
        reply_to(&mut open(), &format!("LOCK.ACQUIRE pinned OWNER holder ONCE PX {lease}"));
        let line = format!("LOCK.{locks} OWNER waiter{number} PX {lease} BLOCK 0");
        let mut waiter = open();
        waiter.begin(&line);
        patiently("a waiter", || {
            let info = server.client().lock_info("pinned");
            info.is_some_and(|info| info["waiters"] == (number + 1).to_string())
        });
        Self { waiter, line }
    }

    /// The old primary never grants it the lock, but sends it away; the new one grants it.
    pub(super) fn comes_back(mut self, new: &Server) {
        let outcome = self.waiter.finish();
        assert!(outcome == Outcome::Gone || outcome.code() == Some("UNBLOCKED"), "{outcome:?}");
        let mut link = Link::to(new.port(), LONG);
        assert!(matches!(reply_to(&mut link, &self.line), Value::Array(_)));
        for key in ["pinned", "free", "other"] {
            reply_to(&mut link, &format!("LOCK.BREAK {key}"));
        }
    }
}

/// The reply to a command. On a busy machine a server may find too few good replicas for a moment, or begin a grace.
pub(super) fn reply_to(link: &mut Link, line: &str) -> Value {
    let mut reply = None;
    patiently("a reply", || {
        match link.send(line) {
            Outcome::Reply(came) => reply = Some(came),
            outcome => assert!(matches!(outcome.code(), Some("NOREPLICAS" | "GRACE")), "{outcome:?}"),
        }
        reply.is_some()
    });
    reply.expect("there is one")
}
