//! Clients that wait for a lock over a failover.

use std::time::Instant;

use redis::Value;

use super::group::{LONG, patiently};
use crate::support::{Belief, Ledger, Link, Outcome, Server, convert, instant_of};

/// A client that waits, without limit, for a lock that is never released, alone or together with others.
pub(super) struct Pinned {
    waiter: Link,
    line: String,
    asked: Instant,
}

impl Pinned {
    /// Starts one client of each kind, with leases of this many ms.
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
            // On a busy machine, the owner's lease may already have ended.
            info.is_some_and(|info| info["waiters"] == (number + 1).to_string() || info["owner"] != "holder")
        });
        Self { waiter, line, asked }
    }

    /// Checks that the old primary sends the client away, and that the new one grants it the lock. If the old one lives longer than the
    /// owner's lease, it may also grant the lock: this grant is recorded and judged like all others.
    pub(super) fn comes_back(mut self, old: &Server, new: &Server, ledger: &Ledger) {
        let mut first = None;
        match self.waiter.finish() {
            Outcome::Reply(reply) => {
                let (fence, lease) = fence_and_lease(reply);
                // The time of the reply is not known, so the latest one counts: the millisecond after the grant.
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
        // If this is another grant than the old primary's, it is recorded. It is broken at once.
        if first != Some(fence) {
            self.believe(ledger, new, fence, [asked, since, Instant::now()]);
        }
        for key in ["pinned", "free", "other"] {
            reply_to(&mut link, &format!("LOCK.BREAK {key}"));
        }
    }

    /// Records a grant: when the client asked, when it was told, and until when it relies on the lock.
    fn believe(&self, ledger: &Ledger, server: &Server, fence: i64, [asked, since, until]: [Instant; 3]) {
        let (key, owner, server) = ("pinned".into(), self.line.clone(), server.port());
        ledger.add(Belief { key, owner, fence, room: 1, server, asked, since, until });
    }
}

/// Returns the fence and the lease of a grant of one lock, or of several locks with the same fence.
fn fence_and_lease(reply: Value) -> (i64, i64) {
    match convert::<Vec<Value>>(reply).as_slice() {
        [_, Value::Int(fence), _, Value::Int(lease), ..] => (*fence, *lease),
        [_, Value::Array(fences), _, Value::Int(lease), ..] => (convert(fences[0].clone()), *lease),
        other => panic!("no grant: {other:?}"),
    }
}

/// Returns the reply to a command. Tries again, because on a busy machine a server may miss its replicas, or begin a grace.
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
