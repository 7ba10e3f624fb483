//! Clients that wait for a lock over a failover.

use std::time::Instant;

use redis::Value;

use super::group::{LONG, patiently};
use crate::support::{Belief, Ledger, Link, Outcome, Server, convert, instant_of};

/// A client that waits, without limit, for a lock whose owner never gives it back, or for others too.
pub(super) struct Pinned {
    waiter: Link,
    line: String,
    asked: Instant,
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
        let asked = Instant::now();
        waiter.begin(&line);
        patiently("a waiter", || {
            let info = server.client().lock_info("pinned");
            // On a busy machine the owner's lease may be over by now.
            info.is_some_and(|info| info["waiters"] == (number + 1).to_string() || info["owner"] != "holder")
        });
        Self { waiter, line, asked }
    }

    /// The old primary sends it away, and the new one grants it. Where the old one lives on for longer than the owner's lease, it may grant
    /// it, too: that is judged as all other grants are.
    pub(super) fn comes_back(mut self, old: &Server, new: &Server, ledger: &Ledger) {
        let mut first = None;
        match self.waiter.finish() {
            Outcome::Reply(reply) => {
                let (fence, lease) = fence_and_lease(reply);
                // It is not known when it heard of it: the grant, and the whole millisecond.
                let (since, until) = (instant_of(fence / 1000 + 1), instant_of(fence / 1000 + lease));
                self.believe(ledger, old, fence, [self.asked, since, until]);
                first = Some(fence);
            }
            outcome => {
                assert!(outcome == Outcome::Gone || outcome.code() == Some("UNBLOCKED"), "{outcome:?}");
            }
        }
        let mut link = Link::to(new.port(), LONG);
        let asked = Instant::now();
        let (fence, _) = fence_and_lease(reply_to(&mut link, &self.line));
        let since = Instant::now();
        // Not where the new primary has the old one's grant. It is broken at once.
        if first != Some(fence) {
            self.believe(ledger, new, fence, [asked, since, Instant::now()]);
        }
        for key in ["pinned", "free", "other"] {
            reply_to(&mut link, &format!("LOCK.BREAK {key}"));
        }
    }

    /// Writes down that it was granted the lock: when it asked, heard of it, and counts on it no longer.
    fn believe(&self, ledger: &Ledger, server: &Server, fence: i64, [asked, since, until]: [Instant; 3]) {
        let (key, owner, server) = ("pinned".into(), self.line.clone(), server.port());
        ledger.add(Belief { key, owner, fence, room: 1, server, asked, since, until });
    }
}

/// Of a grant of one lock, or of several that have the same fence.
fn fence_and_lease(reply: Value) -> (i64, i64) {
    match convert::<Vec<Value>>(reply).as_slice() {
        [_, Value::Int(fence), _, Value::Int(lease), ..] => (*fence, *lease),
        [_, Value::Array(fences), _, Value::Int(lease), ..] => (convert(fences[0].clone()), *lease),
        other => panic!("no grant: {other:?}"),
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
