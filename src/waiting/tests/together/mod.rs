//! Clients that take several locks at once, beside others that take one: a model whose steps are tried in all orders (`worlds`) and in
//! long random ones (`histories`). After each step it is compared with what the page on `LOCK.MACQUIRE` says, in words of its own.

mod check;
mod histories;
mod worlds;

use std::collections::{BTreeMap, BTreeSet};

use super::server::{Conn, Lock, Reply, Rules, Server, Writes};
use crate::lock::{AcquireRequest, Fence, Got, Millis, Owner, Room};
use crate::waiting::{Channel, MessageKind, WaitOptions};

/// Names, of which each client has one; where there are too few, the last clients share the last.
const NAMES: [&[u8]; 5] = [b"a", b"b", b"c", b"d", b"e"];

const NOW: Millis = 1_700_000_000_000;

/// What a client asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Want {
    locks: &'static [Lock],
    /// By `LOCK.ACQUIRE`, else by `LOCK.MACQUIRE`.
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
    /// `LOCK.LEAVE`.
    Leave(Conn),
    Close(Conn),
    /// `CLIENT UNBLOCK`, with the word `ERROR` or without.
    Unblock(Conn, bool),
    /// The server does what is due, or refuses to.
    RunDue(bool),
    /// Those who are to be told are told, before anything else that is due.
    Answer,
    Pass,
    /// Somebody deletes the key, or writes something else over it.
    Delete(Lock),
    Overwrite(Lock),
}

/// What must not be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Fault {
    /// A waiter that gave up what it had been granted of several locks still has one of them.
    LeftInPart,
    /// Those who hold a lock are more than one of them bears.
    TooMany,
    /// A new grant went past one who came before, and still waits.
    NotTheFirst,
    /// Somebody waits who could have all that it waits for.
    Stuck,
    /// A waiter was told that it has what it has not.
    NotAll,
    /// New grants of one command have different fences, or one that is not above those before.
    Fences,
    /// A grant that nobody was told of goes on.
    ToNobody,
    /// A waiter was given a grant that was over by the end of that step.
    OverAtOnce,
    /// A client was told something that waited for nothing.
    ToldUnasked,
    /// A grant has more holds than its owner was told of.
    HoldsUntold,
    /// The message `granted` does not name the fence of the new grants.
    WrongFence,
    /// A waiter stands in some of its queues only.
    HalfAPlace,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct World {
    server: Server,
    now: Millis,
    owners: u8,
    slow: bool,
    /// The server has refused a write: it is tried again only after a while.
    refused: bool,
    /// A key was taken away: who has been granted it may be told of it still.
    taken_away: bool,
    /// What each client waits for, blocked or with a place.
    waits: Vec<Option<Want>>,
    /// The waiters, in order of arrival.
    arrivals: Vec<Conn>,
    /// The grants that somebody has been told of.
    told: BTreeSet<(Lock, Fence)>,
    /// How many holds of each grant owners have been told of. None from when somebody extends a grant, or asks with `ONCE` or `NOTIFY`:
    /// from then on one answer may stand for several holds, or for none.
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
            refused: false,
            taken_away: false,
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

    /// Whether something is to be done before time goes on.
    fn is_due(&self) -> bool {
        self.server.next_due().is_some_and(|at| at <= self.now)
    }

    fn take(&mut self, step: Step) {
        let before = self.clone();
        let (rules, now) = (self.rules(), self.now);
        self.taken_away |= matches!(step, Step::Delete(_) | Step::Overwrite(_));
        match step {
            Step::Ask(conn, want) => self.ask(conn, want),
            Step::Release(conn, locks) => {
                let owner = self.owner(conn);
                self.given_back(&owner, locks);
                self.server.release_all(rules, now, locks, &owner, false);
            }
            Step::Extend(conn, locks, lease) => {
                let owner = self.owner(conn);
                if self.server.extend_all(rules, now, locks, &owner, lease).is_some() {
                    self.holds = None;
                    // An owner that extends a grant knows of it, and of what came with it.
                    self.knows(&owner, &[0, 1, 2]);
                }
            }
            Step::Leave(conn) => {
                let owner = self.owner(conn);
                let fence = |server: &Server, lock| server.fence_of(lock, &owner, now);
                let held = fence(&self.server, 0);
                self.server.leave(rules, now, &owner);
                // With a grant that it had not claimed go all that came with it, where none of them is over by itself.
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
                // A waiter that asks again keeps its place, unless that has just been served, and it wants less room now.
                if !stood || self.held_by(conn).iter().any(|grant| !held.contains(grant)) {
                    self.arrivals.retain(|other| *other != conn);
                    self.arrivals.push(conn);
                }
            }
            reply => {
                self.is_told(want, &reply);
                // A claim.
                if once && self.waits[usize::from(conn)].is_some_and(|waits| waits.notify) {
                    self.forget_place(conn);
                }
            }
        }
    }

    /// The grants of a client's name.
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

    /// A client that had a place stands in no queue any more. (It may have asked for something else since, and be blocked.)
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

    /// A client has been told what it has.
    fn is_told(&mut self, Want { locks, once, .. }: Want, reply: &Reply) {
        let all: &[Got] = match reply {
            Reply::Granted { fence, holds, .. } => &[Got { fence: *fence, holds: *holds, slot: None }],
            Reply::All(all, _) => all,
            _ => return,
        };
        if all.len() != locks.len() {
            self.faults.insert(Fault::NotAll);
        }
        let mut new = all.iter().filter(|got| got.holds == 1 && !once).map(|got| got.fence);
        if new.next().is_some_and(|first| new.any(|fence| fence != first)) {
            self.faults.insert(Fault::Fences);
        }
        for (lock, got) in locks.iter().zip(all) {
            // Where each has a name of its own, nobody else can have given it back.
            let held = self.server.holders_of(*lock, self.now);
            let its =
                held.iter().any(|held| held.grant.fence() == got.fence && held.grant.holds() >= got.holds);
            if !its && !self.taken_away && usize::from(self.owners) == self.waits.len() {
                self.faults.insert(Fault::NotAll);
            }
            self.holds.iter_mut().for_each(|holds| *holds.entry((*lock, got.fence)).or_default() += 1);
            // Its owner knows of all that was granted with it.
            self.told.extend((0..3).map(|lock| (lock, got.fence)));
        }
    }

    /// An owner gives back a hold of each of these locks.
    fn given_back(&mut self, owner: &Owner<'_>, locks: &[Lock]) {
        for lock in locks {
            let Some(fence) = self.server.fence_of(*lock, owner, self.now) else { continue };
            let known = self.holds.iter_mut().find_map(|holds| holds.get_mut(&(*lock, fence)));
            known.into_iter().for_each(|known| *known = known.saturating_sub(1));
        }
    }

    /// An owner knows of what it has.
    fn knows(&mut self, owner: &Owner<'_>, locks: &[Lock]) {
        for lock in locks {
            let held = self.server.holders_of(*lock, self.now).into_iter();
            let its = held.filter(|held| held.grant.owner() == *owner).map(|held| held.grant.fence());
            let its: Vec<_> = its.map(|fence| (*lock, fence)).collect();
            self.told.extend(its);
        }
    }

    /// What has been published.
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
        // Waits that their clients gave up by themselves.
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
