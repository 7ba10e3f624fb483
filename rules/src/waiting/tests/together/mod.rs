//! A model of clients that acquire several locks at once, beside clients that acquire one lock. `worlds` tries its steps in all orders,
//! `histories` in long random orders. After each step, the model is checked against the rules of the page on `LOCK.MACQUIRE`, which are
//! stated here again.

mod check;
mod histories;
mod worlds;

use std::collections::{BTreeMap, BTreeSet};

use super::server::{Conn, Lock, Reply, Rules, Server, Writes};
use crate::lock::{AcquireRequest, Deadline, Fence, Got, Grant, Millis, Owner, Room};
use crate::waiting::{Channel, ExtendRequest, MessageKind, WaitOptions};

/// The names of owners. Each client has its own name; if there are too few names, the last clients share the last name.
const NAMES: [&[u8]; 5] = [b"a", b"b", b"c", b"d", b"e"];

const NOW: Millis = 1_700_000_000_000;

/// The request of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Want {
    locks: &'static [Lock],
    /// Whether the client asks with `LOCK.ACQUIRE` instead of `LOCK.MACQUIRE`.
    alone: bool,
    room: Room,
    block: Option<Millis>,
    notify: bool,
    once: bool,
    session: bool,
    lease: Millis,
}

impl Want {
    const ONE: Self = Self {
        locks: &[0],
        alone: true,
        room: Room::ONE,
        block: Some(0),
        notify: false,
        once: false,
        session: false,
        lease: 2,
    };
    const BOTH: Self = Self { locks: &[0, 1], alone: false, ..Self::ONE };
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Step {
    Ask(Conn, Want),
    Release(Conn, &'static [Lock]),
    Extend(Conn, &'static [Lock], Millis),
    /// A client sends `LOCK.LEAVE` for the first lock.
    Leave(Conn),
    Close(Conn),
    /// The server has to close a connection, and will do so at the end of its turn.
    Doom(Conn),
    /// An operator ends all grants of a lock.
    Break(Lock),
    /// An operator runs `CLIENT UNBLOCK`, with `ERROR` if true.
    Unblock(Conn, bool),
    /// The server does the work that is due, or refuses its writes.
    RunDue(bool),
    /// The server sends answers, before it does any other due work.
    Answer,
    Pass,
    /// A client deletes the key, or overwrites it with another type.
    Delete(Lock),
    Overwrite(Lock),
}

/// A violation of the rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Fault {
    /// An owner that gave up its grant of several locks still has one of them.
    LeftInPart,
    /// A lock has more holders than the room of one of its grants allows.
    TooMany,
    /// A new grant passed over an earlier client that still waits.
    NotTheFirst,
    /// A client that could have all its locks still waits.
    Stuck,
    /// A waiter was told of a grant that its owner does not have.
    NotAll,
    /// New grants of one command have different fences, or a fence that is not greater than earlier fences.
    Fences,
    /// A grant goes on, although nobody was told of it.
    ToNobody,
    /// A waiter got a grant that ended in the same step.
    OverAtOnce,
    /// A client that did not wait got an answer.
    ToldUnasked,
    /// A grant has more holds than its owner was told of.
    HoldsUntold,
    /// The message `granted` does not have the fence of the new grants.
    WrongFence,
    /// A waiter is only in some of its queues.
    HalfAPlace,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct World {
    server: Server,
    now: Millis,
    owners: u8,
    slow: bool,
    /// Whether a place's hold that was not claimed in time may be taken back before its owner is told of another one.
    may_be_unclaimed: bool,
    /// Whether the server has refused a write, which the module will try again only after a while.
    refused: bool,
    /// The request of each client that waits, blocked or with a place.
    waits: Vec<Option<Want>>,
    /// The waiters, in order of arrival.
    arrivals: Vec<Conn>,
    /// The grants of which a client has been told.
    told: BTreeSet<(Lock, Fence)>,
    /// The number of holds of each grant that owners have been told of. `None` after an extension, `ONCE` or `NOTIFY`, because one answer
    /// may then stand for several holds, or for none.
    holds: Option<BTreeMap<(Lock, Fence), u32>>,
    highest: Option<Fence>,
    faults: BTreeSet<Fault>,
}

impl World {
    fn new(conns: Conn, owners: u8, slow: bool) -> Self {
        Self {
            server: Server::new(conns),
            now: NOW,
            owners,
            slow,
            may_be_unclaimed: false,
            refused: false,
            waits: vec![None; usize::from(conns)],
            arrivals: Vec::new(),
            told: BTreeSet::new(),
            holds: Some(BTreeMap::new()),
            highest: None,
            faults: BTreeSet::new(),
        }
    }

    fn rules(&self) -> Rules {
        Rules { claim: 2, slow: self.slow, ..Rules::PLAIN }
    }

    fn owner(&self, conn: Conn) -> Owner<'static> {
        Owner::new(NAMES[usize::from(conn.min(self.owners - 1))]).unwrap()
    }

    /// Whether there is due work, which the server does before time passes.
    fn is_due(&self) -> bool {
        self.server.next_due().is_some_and(|at| at <= self.now)
    }

    fn take(&mut self, step: Step) {
        let before = self.clone();
        let (rules, now) = (self.rules(), self.now);
        match step {
            Step::Ask(conn, want) => self.ask(conn, want),
            Step::Release(conn, locks) => {
                let owner = self.owner(conn);
                self.given_back(&owner, locks);
                self.server.release_all(rules, now, locks, &owner, false);
            }
            Step::Extend(conn, locks, lease) => {
                let owner = self.owner(conn);
                let longer = ExtendRequest { owner: &owner, fence: None, lease, confirm: None };
                let extended = self.server.extend_each(rules, now, conn, locks, &longer);
                if matches!(extended, Reply::Extended(_)) {
                    self.holds = None;
                    // An owner that extends a grant knows of it, and of all grants that were made with it.
                    self.knows(&owner, &[0, 1, 2]);
                }
            }
            Step::Leave(conn) => {
                let owner = self.owner(conn);
                let fence = |server: &Server, lock| server.fence_of(lock, &owner, now);
                let held = fence(&self.server, 0);
                self.server.leave_on(rules, now, 0, &owner);
                // An unclaimed grant that is given up ends together with all grants that were made with it, unless one of them has ended by
                // itself.
                let ended = held.filter(|_| fence(&self.server, 0).is_none());
                if ended.is_some()
                    && (1..super::server::KEYS.len()).any(|lock| fence(&self.server, lock) == ended)
                {
                    self.faults.insert(Fault::LeftInPart);
                }
            }
            Step::Close(conn) => {
                self.gone(conn);
                self.server.close(rules, now, conn);
            }
            Step::Doom(conn) => self.server.doom(conn),
            Step::Break(lock) => {
                self.server.break_on(rules, now, lock, None);
                // Whoever left the queue in this step was granted the lock, and must still have it.
                let left = before.queue(lock).into_iter().filter(|conn| !self.queue(lock).contains(conn));
                let has = |conn: Conn| self.server.fence_of(lock, &self.owner(conn), now).is_some();
                if left.filter(|conn| self.waits[usize::from(*conn)].is_some()).any(|conn| !has(conn)) {
                    self.faults.insert(Fault::OverAtOnce);
                }
            }
            Step::Unblock(conn, error) => {
                let told = self.server.unblock(rules, now, conn, error);
                self.hear(told);
            }
            Step::RunDue(taken) => {
                let writes = if taken { Writes::Taken } else { Writes::Refused };
                self.refused |= !taken;
                let told = self.server.run_due(rules, now, writes);
                self.hear(told);
            }
            Step::Answer => {
                let told = self.server.answer(rules, now);
                self.hear(told);
            }
            Step::Pass => self.now += 1,
            Step::Delete(lock) => self.server.delete(lock),
            Step::Overwrite(lock) => {
                self.server.overwrite_one(lock);
                let told = self.server.run_due(rules, now, Writes::Taken);
                self.hear(told);
            }
        }
        for conn in (0..self.waits.len() as Conn).filter(|conn| before.server.is_doomed(*conn)) {
            if !self.server.is_doomed(conn) {
                self.gone(conn);
            }
        }
        self.read();
        self.server.effects.clear();
        self.check(&before);
    }

    fn ask(&mut self, conn: Conn, want: Want) {
        let (rules, now) = (self.rules(), self.now);
        let Want { locks, alone, room, block, notify, once, session, lease } = want;
        let owner = self.owner(conn);
        let ask = AcquireRequest { once, session, room, ..AcquireRequest::new(owner, lease) };
        let channel =
            notify.then(|| Channel { address: NAMES[usize::from(conn)].into(), wanted: true, start: None });
        let wait = WaitOptions { timeout: block, channel, detect: false, confirm: None };
        if once || notify {
            self.holds = None;
        }
        let stood = self.queued().contains(&conn) && self.arrivals.contains(&conn);
        let held = self.held_by(conn);
        let reply = match locks {
            [lock] if alone => self.server.acquire_on(rules, now, conn, *lock, &ask, &wait),
            locks => self.server.acquire_all(rules, now, conn, locks, &ask, &wait),
        };
        match reply {
            Reply::Waits | Reply::Queued => {
                self.waits[usize::from(conn)] = Some(want);
                // A waiter that asks again keeps its place, unless the place has just been served and the new request is for an upgrade.
                if !stood || self.held_by(conn).iter().any(|grant| !held.contains(grant)) {
                    self.arrivals.retain(|other| *other != conn);
                    self.arrivals.push(conn);
                }
            }
            reply => {
                self.is_told(want, &reply);
                // This request claims the grant of a place.
                if once && self.waits[usize::from(conn)].is_some_and(|waits| waits.notify) {
                    self.forget_place(conn);
                }
            }
        }
    }

    /// Returns the grants of a client's owner, by lock.
    fn held_by(&self, conn: Conn) -> Vec<(Lock, Fence)> {
        let (name, locks) = (self.owner(conn), 0..3);
        let held = locks
            .flat_map(|lock| self.server.all_held_of(lock).into_iter().map(move |held| (lock, held.grant)));
        held.filter(|(_, grant)| grant.owner() == name).map(|(lock, grant)| (lock, grant.fence())).collect()
    }

    fn gone(&mut self, conn: Conn) {
        self.waits[usize::from(conn)] = None;
        self.arrivals.retain(|other| *other != conn);
    }

    /// If a client with a place is in no queue any more, notes that it does not wait. (It may have asked for other locks meanwhile, and be
    /// blocked.)
    fn forget_place(&mut self, conn: Conn) {
        let has_place = self.waits[usize::from(conn)].is_some_and(|waits| waits.notify);
        if has_place && !self.queued().contains(&conn) {
            self.gone(conn);
        }
    }

    fn hear(&mut self, told: Vec<(Conn, Reply)>) {
        for (conn, reply) in told {
            match self.waits[usize::from(conn)].filter(|waits| !waits.notify) {
                None => _ = self.faults.insert(Fault::ToldUnasked),
                Some(want) => {
                    self.gone(conn);
                    self.is_told(want, &reply);
                }
            }
        }
    }

    /// Notes that a client has been told of its grants.
    fn is_told(&mut self, Want { locks, once, .. }: Want, reply: &Reply) {
        let (all, until): (&[Got], _) = match reply {
            Reply::Granted { fence, holds, deadline, .. } => {
                (&[Got { fence: *fence, holds: *holds, slot: None }], *deadline)
            }
            Reply::All(all, until) => (all, *until),
            _ => return,
        };
        // The client is told if one of its grants has ended.
        let ended = until < Deadline::At(self.now);
        if all.len() != locks.len() {
            self.faults.insert(Fault::NotAll);
        }
        let mut new = all.iter().filter(|got| got.holds == 1 && !once).map(|got| got.fence);
        if new.next().is_some_and(|first| new.any(|fence| fence != first)) {
            self.faults.insert(Fault::Fences);
        }
        for (lock, got) in locks.iter().zip(all) {
            // If each client has its own name, nobody else can have released the lock.
            let held = self.server.holders_of(*lock, self.now);
            let all_holds = |grant: &Grant| grant.holds() >= got.holds || self.may_be_unclaimed;
            let its = held.iter().any(|held| held.grant.fence() == got.fence && all_holds(held.grant));
            if !its && !ended && usize::from(self.owners) == self.waits.len() {
                self.faults.insert(Fault::NotAll);
            }
            self.holds.iter_mut().for_each(|holds| *holds.entry((*lock, got.fence)).or_default() += 1);
            // The owner knows of all grants that were made with this grant.
            self.told.extend((0..3).map(|lock| (lock, got.fence)));
        }
    }

    /// Notes that an owner has released a hold of each of these locks.
    fn given_back(&mut self, owner: &Owner<'_>, locks: &[Lock]) {
        for lock in locks {
            let Some(fence) = self.server.fence_of(*lock, owner, self.now) else { continue };
            let known = self.holds.iter_mut().find_map(|holds| holds.get_mut(&(*lock, fence)));
            known.into_iter().for_each(|known| *known = known.saturating_sub(1));
        }
    }

    /// Notes that an owner knows of its grants of these locks.
    fn knows(&mut self, owner: &Owner<'_>, locks: &[Lock]) {
        for lock in locks {
            let held = self.server.holders_of(*lock, self.now).into_iter();
            let its = held.filter(|held| held.grant.owner() == *owner).map(|held| held.grant.fence());
            let its: Vec<_> = its.map(|fence| (*lock, fence)).collect();
            self.told.extend(its);
        }
    }

    /// Reads the published messages.
    fn read(&mut self) {
        for message in std::mem::take(&mut self.server.messages) {
            let conn = NAMES.iter().position(|name| **name == *message.channel.address).unwrap() as Conn;
            match message.kind {
                MessageKind::Granted(fence) => {
                    let name = self.owner(conn);
                    self.check_message(conn, fence);
                    self.knows(&name, &[0, 1, 2]);
                    self.forget_place(conn);
                }
                MessageKind::Timeout | MessageKind::Gone => self.forget_place(conn),
                MessageKind::Lost(_) | MessageKind::Wanted(_) | MessageKind::Start { .. } => {}
            }
        }
        // Some places may have been given up by their clients.
        let queued = self.queued();
        for conn in 0..self.waits.len() as Conn {
            if self.waits[usize::from(conn)].is_some_and(|waits| waits.notify) && !queued.contains(&conn) {
                let told = self.server.has_answers();
                if !told {
                    self.gone(conn);
                }
            }
        }
    }
}
