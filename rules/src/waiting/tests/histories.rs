//! Compares a server that has the real rules with the reference, in long random histories.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::reference::{Answered, Holder, Outcome, Reference, Told, Wish};
use super::server::{Conn, Queued, Reply, Rules, Server, Writes};
use crate::lock::{
    AcquireRequest, Deadline, Extras, Held, Millis, Owner, ReentryError, Room, Slot, SlotRequest,
};
use crate::waiting::WaitOptions;

const NAMES: [&[u8]; 4] = [b"a", b"b", b"c", b"0c1b6a0e-4f6b-4d0c-8f7e-3f8f1f0a9b11"];

/// The number of connections, which all use one lock.
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
        who: usize,
        fence: Option<bool>,
    },
    Close(Conn),
    /// An operator runs `CLIENT UNBLOCK ... ERROR`.
    SendAway(Conn),
    /// An operator runs `CLIENT UNBLOCK`: the client is answered at once, before other clients. Then the connection may close.
    Unblock {
        conn: Conn,
        closes: bool,
    },
    Wait(Millis),
    ClockBack(Millis),
    /// The server does the work that is due.
    RunDue,
    /// The server sends answers, and does no other work.
    Answer,
    /// Clients are paused for this many ms.
    Pause(Millis),
    /// The server refuses due writes after the first time (in ms), and tries again after the second.
    Refuse(Millis, Millis),
    /// A client overwrites the key with another type.
    Overwrite,
    /// Another lock takes the place of this one, as by `RENAME`.
    Replace {
        who: usize,
        lease: Millis,
    },
    /// The server becomes a replica, and a primary again, while a connection closes. The server may run a turn in between.
    Demote {
        conn: Conn,
        has_turn: bool,
    },
    /// The hash slot is at another server for this many ms.
    MoveAway(Millis),
}

fn step() -> impl Strategy<Value = Step> {
    let (conn, who, lease) = (0..CONNS, 0..NAMES.len(), 1..50i64);
    let wish = (who.clone(), lease.clone(), option::weighted(0.2, 1..80i64), any::<bool>(), any::<bool>())
        .prop_map(|(who, lease, max_hold, once, session)| {
            let (room, slot, label) = (1, None, None);
            Wish { who, lease, max_hold, once, session, room, slot, label }
        });
    let room = prop_oneof![3 => Just(1), 1 => 2..4usize, 2 => Just(usize::MAX)];
    let label = prop_oneof![2 => Just(None), 1 => Just(Some("")), 1 => Just(Some("x")), 1 => Just(Some("y"))];
    // The request names a slot that its limit allows, or takes any slot.
    let slot = (option::weighted(0.3, 0..3u32), any::<bool>());
    let wish = (wish, room, slot, label).prop_map(|(wish, room, (slot, alone), label)| {
        let is_limit = room < usize::MAX && (room > 1 || alone);
        let slot = is_limit.then(|| slot.map(|slot| 1 + slot % room as u32));
        Wish { room, slot, label, ..wish }
    });
    // The command names the right fence, an earlier fence, or none.
    let fence = option::of(any::<bool>());
    prop_oneof![
        24 => (conn.clone(), wish, option::weighted(0.6, 0..40i64))
            .prop_map(|(conn, wish, block)| Step::Acquire { conn, wish, block }),
        12 => (who.clone(), any::<bool>(), fence.clone())
            .prop_map(|(who, all, fence)| Step::Release { who, all, fence }),
        6 => (who.clone(), lease.clone(), fence.clone()).prop_map(|(who, lease, fence)| Step::Extend { who, lease, fence }),
        3 => (who.clone(), fence).prop_map(|(who, fence)| Step::Break { who, fence }),
        6 => conn.clone().prop_map(Step::Close),
        3 => conn.clone().prop_map(Step::SendAway),
        3 => (conn.clone(), any::<bool>()).prop_map(|(conn, closes)| Step::Unblock { conn, closes }),
        9 => (1..40i64).prop_map(Step::Wait),
        3 => (1..20i64).prop_map(Step::ClockBack),
        12 => Just(Step::RunDue),
        3 => Just(Step::Answer),
        2 => (1..20i64).prop_map(Step::Pause),
        2 => (1..40i64, 1..40i64).prop_map(|(after, then)| Step::Refuse(after, then)),
        1 => Just(Step::Overwrite),
        1 => (who, lease).prop_map(|(who, lease)| Step::Replace { who, lease }),
        1 => (conn, any::<bool>()).prop_map(|(conn, has_turn)| Step::Demote { conn, has_turn }),
        1 => (1..40i64).prop_map(Step::MoveAway),
    ]
}

fn told(reply: &Reply) -> Told {
    match *reply {
        Reply::Granted { holds, slot, deadline: Deadline::At(until), .. } => {
            Some((holds, until, slot.map(Slot::get)))
        }
        _ => None,
    }
}

/// Whether a client's answer is right. If a session renewed the lease before, the lease may be longer than expected.
fn agrees(seen: Told, expected: Told, renewed: Option<Millis>) -> bool {
    match (seen, expected) {
        (Some((holds, until, slot)), Some((expected, least, expected_slot))) => {
            (holds, slot) == (expected, expected_slot)
                && (least..=renewed.unwrap_or(least).max(least)).contains(&until)
        }
        _ => seen == expected,
    }
}

/// A server and the reference, which have to agree.
struct Pair {
    server: Server,
    reference: Reference,
    rules: Rules,
    now: Millis,
    /// The end of the last pause.
    paused_until: Millis,
}

impl Pair {
    fn new(max_hold: Option<Millis>) -> Self {
        Self {
            server: Server::new(CONNS),
            reference: Reference { max_hold, ..Reference::default() },
            rules: Rules { max_hold, ..Rules::PLAIN },
            now: NOW,
            paused_until: 0,
        }
    }

    /// Returns the fence that a command names: the fence of an owner's grant, or an earlier fence.
    fn fence(&self, who: usize, right: Option<bool>) -> Option<u64> {
        let holders = self.server.holders(self.now).into_iter();
        let mut its = holders.filter(|held| held.grant.owner() == owner(who));
        let fence = its.next().map_or(1, |held| held.grant.fence().get());
        // No grant has the fence 1.
        right.map(|right| if right { fence } else { 1 })
    }

    fn take(&mut self, step: &Step) -> Result<(), TestCaseError> {
        let (now, rules) = (self.now, self.rules);
        match *step {
            // A waiting client sends no command.
            Step::Acquire { conn, .. } if self.server.blocked().contains(&conn) => return Ok(()),
            // A pause ends by the clock, which must not be set back before the end.
            Step::ClockBack(ms) if now - ms < self.paused_until => return Ok(()),
            _ => {}
        }
        match *step {
            Step::Unblock { conn, closes } => {
                let replies = self.server.unblock(rules, now, conn, false);
                let expected = self.reference.unblock(conn, now);
                self.hear(replies, expected)?;
                if closes {
                    self.take(&Step::Close(conn))?;
                }
            }
            Step::Acquire { conn, wish, block } => {
                let Wish { who, lease, max_hold, once, session, room, slot, label } = wish;
                let room = u32::try_from(room).ok().and_then(Room::limit).unwrap_or(Room::ANY);
                let slot = slot.map(|slot| match slot {
                    Some(slot) => SlotRequest::This(Slot::new(slot).unwrap()),
                    None => SlotRequest::Least,
                });
                let extras = Extras::new(max_hold, label.map(str::as_bytes));
                let ask = AcquireRequest { owner: owner(who), lease, once, session, room, slot, extras };
                self.reference.lapse(now);
                let renewed = self.reference.holder(who).and_then(|holder| holder.renewed(now));
                let reply = self.server.acquire_on(
                    rules,
                    now,
                    conn,
                    0,
                    &ask,
                    &WaitOptions { timeout: block, channel: None, detect: false, confirm: None },
                );
                let outcome = self.reference.acquire(conn, wish, block.is_some(), now);
                let expected = outcome.told();
                prop_assert!(agrees(told(&reply), expected, renewed), "{:?} for {:?}", reply, expected);
                if let (Some((_, until, _)), Some(holder)) = (told(&reply), self.reference.holder_mut(who)) {
                    holder.until = until;
                }
                prop_assert_eq!(reply == Reply::Deadlock, outcome == Outcome::Deadlock);
                let slot_refused = |why| !matches!(why, ReentryError::TooManyHolds);
                let other_slot = matches!(reply, Reply::NoReentry(why) if slot_refused(why));
                prop_assert_eq!(other_slot, outcome == Outcome::OtherSlot);
                let waits = outcome == Outcome::Null && block.is_some();
                prop_assert_eq!(reply == Reply::Waits, waits);
                if let Some(block) = block.filter(|_| waits) {
                    self.reference.waiting.push((conn, wish, (block > 0).then_some(now + block + 1)));
                }
            }
            Step::Release { who, all, fence } => {
                // The command is to name the fence of the holder after all due work.
                if fence.is_some() {
                    self.run_due()?;
                }
                let left = self.server.release(rules, now, &owner(who), self.fence(who, fence), all);
                let expected =
                    if fence == Some(false) { None } else { self.reference.release(who, all, now) };
                prop_assert_eq!(left, expected);
            }
            Step::Extend { who, lease, fence } => {
                if fence.is_some() {
                    self.run_due()?;
                }
                let extended = self.server.extend(rules, now, &owner(who), self.fence(who, fence), lease);
                let expected =
                    if fence == Some(false) { None } else { self.reference.extend(who, lease, now) };
                prop_assert_eq!(extended, expected.map(Deadline::At));
            }
            Step::Break { who, fence } => {
                let fence = self.fence(who, fence);
                self.reference.lapse(now);
                let broken = self.server.break_on(rules, now, 0, fence);
                prop_assert_eq!(broken, self.reference.end(fence, now));
            }
            Step::Close(conn) => {
                self.server.close(rules, now, conn);
                self.reference.close(conn, now);
            }
            Step::SendAway(conn) => {
                let waits = self.server.blocked().contains(&conn);
                let told = self.server.unblock(rules, now, conn, true);
                prop_assert_eq!(told.len(), usize::from(waits));
                self.reference.send_away(conn);
            }
            Step::Wait(ms) => self.now += ms,
            Step::ClockBack(ms) => {
                // A lapsed grant must end even if nobody has looked at the lock, so a command looks at the lock now.
                self.server.release(rules, now, &nobody(), None, false);
                self.reference.lapse(now);
                self.run_due()?;
                self.now -= ms;
            }
            Step::RunDue => self.run_due()?,
            Step::Answer => {
                let replies = self.server.answer(rules, now);
                let expected = self.reference.tell_first(now);
                self.hear(replies, expected)?;
            }
            Step::Pause(ms) => self.pause(ms)?,
            Step::Refuse(after, then) => self.refuse(after, then)?,
            Step::Overwrite => {
                let replies = self.server.overwrite(rules, now);
                self.reference.overwrite(now);
                let expected = self.reference.tell(now);
                self.hear(replies, expected)?;
            }
            Step::Replace { who, lease } => {
                let lease = self.rules.max_hold.map_or(lease, |age| age.min(lease));
                self.server.replace(now, owner(who), lease);
                self.reference.replace(who, lease, now);
                self.run_due()?;
            }
            Step::Demote { conn, has_turn } => {
                self.send_all_away()?;
                self.server.close(rules, now, conn);
                self.server.demote();
                if has_turn {
                    self.server.run_due(rules, now, Writes::Replica);
                }
                self.reference.end_sessions();
            }
            Step::MoveAway(ms) => {
                self.send_all_away()?;
                self.server.move_away(rules, now);
                self.reference.end_sessions();
                self.now += ms;
            }
        }
        self.server.check();
        self.compare()
    }

    /// The server does the work that is due, and each client gets the answer that the reference expects.
    fn run_due(&mut self) -> Result<(), TestCaseError> {
        let replies = self.server.run_due(self.rules, self.now, Writes::Taken);
        self.reference.look(self.now);
        let expected = self.reference.tell(self.now);
        self.hear(replies, expected)?;
        self.compare()
    }

    fn hear(
        &self,
        mut replies: Vec<(Conn, Reply)>,
        mut expected: Vec<Answered>,
    ) -> Result<(), TestCaseError> {
        replies.sort_by_key(|(conn, _)| *conn);
        expected.sort_by_key(|answered| answered.conn);
        prop_assert_eq!(
            replies.len(),
            expected.len(),
            "at {}: the code told {:?}, the reference expects {:?}",
            self.now,
            replies,
            expected
        );
        for ((conn, reply), answered) in replies.into_iter().zip(expected) {
            // Whenever a lease has ended, the client is told a lease of 0.
            let left = |(holds, until, slot): (u32, Millis, Option<u32>)| {
                (holds, if until < self.now { 0 } else { until }, slot)
            };
            let (seen, expected) = (told(&reply).map(left), answered.told.map(left));
            let agrees = conn == answered.conn && agrees(seen, expected, answered.latest);
            prop_assert!(agrees, "{:?} to {} for {:?}", reply, conn, answered);
        }
        Ok(())
    }

    /// Clients are paused: waits time out, and nothing else happens.
    fn pause(&mut self, ms: Millis) -> Result<(), TestCaseError> {
        self.run_due()?;
        for _ in 0..ms {
            self.now += 1;
            if self.server.next_due().is_some_and(|at| at <= self.now) {
                let replies = self.server.run_due(self.rules, self.now, Writes::Paused);
                self.reference.look_in_a_pause(self.now);
                let expected = self.reference.tell(self.now);
                self.hear(replies, expected)?;
            }
        }
        self.now += 1;
        self.paused_until = self.now;
        self.run_due()
    }

    /// The server can't do the due work, and tries again later. A command that comes earlier does this work.
    fn refuse(&mut self, after: Millis, then: Millis) -> Result<(), TestCaseError> {
        self.run_due()?;
        self.now += after;
        let replies = self.server.run_due(self.rules, self.now, Writes::Refused);
        self.reference.look_in_vain(self.now);
        let expected = self.reference.tell(self.now);
        self.hear(replies, expected)?;
        self.now += then;
        prop_assert_eq!(self.server.extend(self.rules, self.now, &nobody(), None, 1), None);
        self.reference.look_for_holder(self.now);
        self.run_due()
    }

    /// Does all due work, and then unblocks all waiters with an error, like a server that is demoted.
    fn send_all_away(&mut self) -> Result<(), TestCaseError> {
        self.run_due()?;
        for conn in self.server.blocked() {
            self.server.unblock(self.rules, self.now, conn, true);
            self.reference.send_away(conn);
        }
        Ok(())
    }

    fn compare(&mut self) -> Result<(), TestCaseError> {
        let now = self.now;
        if self.server.is_unsettled() {
            // A client has gone away, and no command and no due work has looked at the lock since.
            return Ok(());
        }
        // The server may renew a session's lease, and its next renewal must not be too late.
        for held in self.server.holders(now) {
            let fence = held.grant.fence();
            let mut holders = self.reference.holders.iter_mut();
            let Some(holder) = holders.find(|holder| holder.fence == fence.get()) else { continue };
            let (Some(renewed), Deadline::At(until)) = (holder.renewed(now), held.deadline) else {
                continue;
            };
            prop_assert!((holder.until..=renewed).contains(&until), "{} for {:?}", until, holder);
            let renews_by = holder.renews_by(now);
            holder.until = until;
            if let (Some(session), Some(at)) = (&mut holder.session, self.server.renews_at(fence)) {
                prop_assert!(at <= renews_by, "renewed at {}, not by {}", at, renews_by);
                prop_assert!(now < at || session.renew_at <= now, "not renewed at {}", at);
                session.renew_at = at;
            }
        }
        // If nobody has looked at the lock since, lapsed grants may still be there.
        let holders = self.reference.holders.iter().filter(|holder| now <= holder.until);
        let seen = self.server.holders(now).into_iter();
        let seen: Vec<_> = seen
            .map(|Held { grant, deadline }| {
                let slot = grant.slot().map(Slot::get);
                (grant.owner(), grant.fence().get(), grant.holds(), slot, deadline, grant.label())
            })
            .collect();
        let expected: Vec<_> = holders
            .map(|Holder { who, fence, holds, slot, until, label, .. }| {
                (owner(*who), *fence, *holds, *slot, Deadline::At(*until), label.as_bytes())
            })
            .collect();
        prop_assert_eq!(seen, expected);
        let waiting = self.reference.waiting.iter().map(|(conn, ..)| Queued::Blocked(*conn));
        prop_assert_eq!(self.server.queued(), waiting.collect::<Vec<_>>());
        Ok(())
    }
}

fn nobody() -> Owner<'static> {
    Owner::new(b"nobody").unwrap()
}

fn owner(who: usize) -> Owner<'static> {
    Owner::new(NAMES[who]).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4_000, failure_persistence: None, ..ProptestConfig::default() })]

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
