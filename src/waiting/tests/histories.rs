//! Long histories made up at random: a server around the real decisions does what the simplest lock does.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::reference::{Reference, Told, Wish};
use super::server::{Conn, Reply, Rules, Server, Writes};
use crate::lock::{Ask, Deadline, Millis, Owner};

const NAMES: [&[u8]; 4] = [b"a", b"b", b"c", b"0c1b6a0e-4f6b-4d0c-8f7e-3f8f1f0a9b11"];

/// Many connections, and all at one lock.
const CONNS: Conn = 6;

const NOW: Millis = 1_700_000_000_000;

#[derive(Clone, Debug)]
enum Step {
    Acquire {
        conn: Conn,
        wish: Wish,
        block: Option<Millis>,
    },
    Release {
        who: usize,
        all: bool,
        fence: Option<bool>,
    },
    Extend {
        who: usize,
        lease: Millis,
        fence: Option<bool>,
    },
    Break {
        fence: Option<bool>,
    },
    Close(Conn),
    Wait(Millis),
    ClockBack(Millis),
    /// The server does by itself what is due.
    Ring,
}

fn step() -> impl Strategy<Value = Step> {
    let (conn, who, lease) = (0..CONNS, 0..NAMES.len(), 1..50i64);
    let wish = (who.clone(), lease.clone(), option::weighted(0.2, 1..80i64), any::<bool>())
        .prop_map(|(who, lease, max_hold, once)| Wish { who, lease, max_hold, once });
    // The right fence, or an older one.
    let fence = option::of(any::<bool>());
    prop_oneof![
        8 => (conn.clone(), wish, option::weighted(0.6, 0..40i64))
            .prop_map(|(conn, wish, block)| Step::Acquire { conn, wish, block }),
        4 => (who.clone(), any::<bool>(), fence.clone())
            .prop_map(|(who, all, fence)| Step::Release { who, all, fence }),
        2 => (who, lease, fence.clone()).prop_map(|(who, lease, fence)| Step::Extend { who, lease, fence }),
        1 => fence.prop_map(|fence| Step::Break { fence }),
        2 => conn.prop_map(Step::Close),
        3 => (1..40i64).prop_map(Step::Wait),
        1 => (1..20i64).prop_map(Step::ClockBack),
        4 => Just(Step::Ring),
    ]
}

fn told(reply: Reply) -> Told {
    match reply {
        Reply::Granted { holds, deadline: Deadline::At(until), .. } => Some((holds, until)),
        _ => None,
    }
}

/// Both, and what they have to agree on.
struct Pair {
    server: Server,
    reference: Reference,
    rules: Rules,
    now: Millis,
}

impl Pair {
    fn new(max_hold: Option<Millis>) -> Self {
        Self {
            server: Server::new(CONNS),
            reference: Reference { max_hold, ..Reference::default() },
            rules: Rules { max_hold, ..Rules::PLAIN },
            now: NOW,
        }
    }

    /// The fence to name: the holder's, or an older one.
    fn fence(&self, right: Option<bool>) -> Option<u64> {
        let fence = self.server.held(self.now).map_or(1, |held| held.grant.fence().get());
        right.map(|right| if right { fence } else { fence - 1 })
    }

    fn take(&mut self, step: &Step) -> Result<(), TestCaseError> {
        let (now, rules) = (self.now, self.rules);
        match *step {
            // A client that waits asks nothing.
            Step::Acquire { conn, .. } if self.server.blocked().contains(&conn) => {}
            Step::Acquire { conn, wish, block } => {
                let Wish { who, lease, max_hold, once } = wish;
                let ask = Ask { owner: owner(who), lease, max_hold, once, session: false };
                let reply = self.server.acquire(rules, now, conn, &ask, block);
                let expected = self.reference.acquire(wish, now);
                prop_assert_eq!(told(reply), expected);
                prop_assert_eq!(reply == Reply::Waits, expected.is_none() && block.is_some());
                if let Some(block) = block.filter(|_| expected.is_none()) {
                    self.reference.waiting.push((conn, wish, (block > 0).then_some(now + block + 1)));
                }
            }
            Step::Release { who, all, fence } => {
                // The fence to name is that of the holder after what is due.
                self.ring()?;
                let left = self.server.release(rules, now, &owner(who), self.fence(fence), all);
                let expected =
                    if fence == Some(false) { None } else { self.reference.release(who, all, now) };
                prop_assert_eq!(left, expected);
            }
            Step::Extend { who, lease, fence } => {
                self.ring()?;
                let extended = self.server.extend(rules, now, &owner(who), self.fence(fence), lease);
                let expected =
                    if fence == Some(false) { None } else { self.reference.extend(who, lease, now) };
                prop_assert_eq!(extended, expected.map(Deadline::At));
            }
            Step::Break { fence } => {
                self.ring()?;
                let broken = self.server.break_(rules, now, self.fence(fence));
                let expected = self.reference.holder.is_some() && fence != Some(false);
                prop_assert_eq!(broken, expected);
                if expected {
                    self.reference.end(now);
                }
            }
            Step::Close(conn) => {
                self.server.close(rules, now, conn);
                self.reference.close(conn, now);
                self.ring()?;
            }
            Step::Wait(ms) => self.now += ms,
            Step::ClockBack(ms) => {
                // What is over by then is gone, also where nobody has looked: somebody does now.
                self.server.release(rules, now, &Owner::new(b"nobody").unwrap(), None, false);
                self.reference.lapse(now);
                self.ring()?;
                self.now -= ms;
            }
            Step::Ring => self.ring()?,
        }
        self.compare()
    }

    /// Each client is told what it has to be told.
    fn ring(&mut self) -> Result<(), TestCaseError> {
        let mut replies: Vec<_> = self.server.ring(self.rules, self.now, Writes::Taken);
        self.reference.look(self.now);
        let mut expected = std::mem::take(&mut self.reference.answered);
        replies.sort_by_key(|(conn, _)| *conn);
        expected.sort_by_key(|answered| answered.conn);
        let replies: Vec<_> = replies.into_iter().map(|(conn, reply)| (conn, told(reply))).collect();
        let expected: Vec<_> = expected.into_iter().map(|answered| (answered.conn, answered.told)).collect();
        prop_assert_eq!(replies, expected);
        self.compare()
    }

    fn compare(&mut self) -> Result<(), TestCaseError> {
        let held = self.server.held(self.now);
        let fence = self.reference.fence;
        let holder = self.reference.holder.filter(|holder| self.now <= holder.until);
        let seen = held
            .map(|held| (held.grant.owner(), held.grant.fence().get(), held.grant.holds(), held.deadline));
        let expected =
            holder.map(|holder| (owner(holder.who), fence, holder.holds, Deadline::At(holder.until)));
        prop_assert_eq!(seen, expected);
        let waiting: Vec<Conn> = self.reference.waiting.iter().map(|(conn, ..)| *conn).collect();
        prop_assert_eq!(self.server.queued(), waiting);
        Ok(())
    }
}

fn owner(who: usize) -> Owner<'static> {
    Owner::new(NAMES[who]).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn long_histories_agree_with_the_simplest_lock(
        steps in vec(step(), 1..400),
        max_hold in option::weighted(0.3, 20..200i64),
    ) {
        let mut pair = Pair::new(max_hold);
        for step in &steps {
            pair.take(step)?;
        }
    }
}
