//! What must hold at each step: a process believes no more than the server has granted, and the server keeps its own promises.

use std::collections::BTreeMap;

use super::super::server::{KEYS, Lock, QueuedRequest};
use super::process::{Process, Task};
use super::wire;
use super::world::World;
use crate::encoding::Effect;
use crate::lock::{Deadline, Fence, Millis, Owner, Room};
use crate::waiting::{Message, MessageKind};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// A process believes that it holds a lock that the server has not granted, or it relies on it for longer than the server grants it.
    Believes {
        lock: Lock,
        fence: u64,
        until: Millis,
        granted: Option<Known>,
    },
    /// A lock has more holders than one of their grants allows, or more processes believe that they hold it.
    TooMany(Lock),
    TooManyBelieve(Lock),
    FenceNotAbove(u64),
    /// Somebody waits for a lock that is free.
    FreeWithAQueue(Lock),
    /// A grant passed over a waiter that had come earlier.
    NotTheFirst(Lock),
    /// An acquire has made a lease shorter.
    AcquireShortens(Lock),
    /// The lease of a claimed grant is shorter than the requested lease.
    EndsTooSoon(Lock),
    /// `LOCK.BREAK` has ended a grant that was made in the same step.
    BreaksWhatItMade(u64),
    /// A waiter has the lock, but nobody can tell it.
    Untold(u64),
    /// A process was told of a loss, and still believes that it holds the lock.
    IgnoresLoss(u64),
    /// A process is done with an owner that may have a grant, and has not released the grant.
    Forgets(u64),
    /// Something goes on although nothing disturbs the world any more.
    NeverEnds,
}

/// What the server was doing when a grant ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    Acquire,
    Command,
    Closed,
    Break,
    Operator,
    Due,
    Failover,
}

/// A grant of the server, as this test knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Known {
    /// When the grant was made, by the server's clock, and whether its owner has asked for it or extended it since.
    pub(super) since: Millis,
    pub(super) claimed: bool,
    /// Whether a message has told somebody of the grant.
    pub(super) told: bool,
    pub(super) until: Deadline,
    pub(super) session: bool,
    /// Whether another server has taken over since the grant was made: the holder may know of a longer lease than this server.
    pub(super) failed_over: bool,
    /// Whether a failover has brought the grant back after its end: its owner may hold the lock beside later holders.
    pub(super) back: bool,
    /// Whether the connection of the grant's session has closed: the server may know this before the process does.
    pub(super) closed: bool,
    /// Whether the lease may be shorter than its holder knows, for one of three reasons: an extension that the process had given up arrived
    /// after a later one; the server's clock was set forward; or the clock was set back, which lengthened the lease, and an extension by
    /// the default lease shortened it again.
    pub(super) shorter: bool,
    pub(super) ended: Option<Why>,
}

impl World {
    /// Compares what each task relies on with what the server has granted.
    pub(super) fn check_beliefs(&mut self) {
        let now = self.clock();
        let mut inside: [BTreeMap<u64, (Room, Known)>; KEYS.len()] = Default::default();
        for process in self.processes.iter().filter(|process| !process.dead) {
            let of_name = self.processes.iter().filter(|other| other.name == process.name);
            let has_others = of_name.count() > 1;
            for task in &process.tasks {
                let Task::Holds { id, granted, locks, room, synced } = task else { continue };
                // Another process of the same name may have ended it, or cut its lease, without telling this one.
                if has_others && granted.owner == format!("p{}", process.name).as_bytes() {
                    continue;
                }
                let Some((fences, until)) = process.core.belief(*id) else { continue };
                if until.is_some_and(|until| until <= process.clock(self.now)) {
                    continue;
                }
                let until = until.map_or(Millis::MAX, |until| process.time(until) + self.set_by);
                // A slow clock can be late by this at the end of the longest lease, which is longer if the server's clock was set back.
                let longest = wire::DEFAULT_LEASE + self.set_back;
                let slow = if process.drift < 0 { longest * -process.drift / 900_000 } else { 0 };
                let slack = 1 + slow;
                for (lock, fence) in locks.iter().zip(fences) {
                    let known = Fence::new(*fence).and_then(|fence| self.grants.get(&(*lock, fence)));
                    let no_longer = |known: &Known| Deadline::At(until - slack) <= known.until;
                    let is_within = known.is_some_and(|known| match known.ended {
                        // A failover may lose a grant that replicas did not have to confirm.
                        _ if known.failed_over && !synced || known.shorter || known.closed => true,
                        None | Some(Why::Break | Why::Operator) => no_longer(known),
                        // The grant has lapsed, by the server's clock.
                        Some(_) if known.until < Deadline::At(now) => no_longer(known),
                        Some(_) => false,
                    });
                    if !is_within && self.fault.is_none() {
                        let (lock, fence, granted) = (*lock, *fence, known.copied());
                        self.fault = Some(Fault::Believes { lock, fence, until, granted });
                    }
                    // An owner does not know yet if an operator, a closed connection or a failover without a grace has ended its grant.
                    let counts = |known: &&Known| {
                        let failed_over = known.failed_over && self.rules.grace == 0 || known.shorter;
                        let ended = known.ended.is_some_and(|why| why != Why::Failover);
                        !failed_over && !ended && known.until >= Deadline::At(now)
                    };
                    if let Some(known) = known.filter(counts) {
                        inside[*lock].insert(*fence, (*room, *known));
                    }
                }
            }
        }
        for (lock, inside) in inside.iter().enumerate() {
            // A failover may bring back a grant that had ended, beside the holder whose grant it lost.
            let parts: [fn(&Known) -> bool; 2] = [|known| !known.back, |known| known.ended.is_none()];
            for part in parts {
                let inside: Vec<_> = inside.values().filter(|(_, known)| part(known)).collect();
                if inside.iter().any(|(room, _)| room.most().is_some_and(|most| inside.len() > most as usize))
                {
                    self.fault = self.fault.or(Some(Fault::TooManyBelieve(lock)));
                }
            }
        }
    }

    /// Notes which grants have begun, which have a new lease, and which have ended.
    pub(super) fn watch(&mut self, why: Why) {
        let (now, highest) = (self.clock(), self.highest);
        let may_fall = self.set_back > 0 && self.lost_changes;
        for lock in 0..KEYS.len() {
            let mut seen = BTreeMap::new();
            for held in self.server.all_held_of(lock) {
                seen.insert(held.grant.fence(), (held.deadline, held.grant.owner().into_owned()));
            }
            let queue = self.server.asks_of(lock);
            let mut new = Vec::new();
            for (fence, (until, owner)) in &seen {
                let session = self.server.session_of(lock, *fence).is_some();
                // Each step undoes the renewals of sessions that replicas have not confirmed.
                let is_synced = self.server.is_synced(lock, *fence);
                let known = self.grants.get_mut(&(lock, *fence));
                // If fences may repeat, this fence may be that of another grant.
                match known.filter(|known| !(may_fall && known.ended.is_some() && why != Why::Failover)) {
                    Some(known) => {
                        if why == Why::Acquire && *until < known.until && !is_synced {
                            self.fault = Some(Fault::AcquireShortens(lock));
                        }
                        known.shorter |= self.set_back > 0 && why == Why::Command && *until < known.until;
                        (known.until, known.session) = (*until, known.session || session);
                        if why == Why::Failover {
                            known.back |= known.ended.take().is_some();
                            known.failed_over = true;
                        }
                    }
                    None => {
                        // A failover grants nothing. It may bring back a grant that ended in the step that made it, which is not known
                        // here.
                        let may_fall = may_fall || why == Why::Failover;
                        if !may_fall && highest.is_some_and(|highest| *fence <= highest) {
                            self.fault = Some(Fault::FenceNotAbove(fence.get()));
                        }
                        self.highest = self.highest.max(Some(*fence));
                        // The earlier owner of this fence may still rely on the grant that was lost.
                        let is_again = self.grants.contains_key(&(lock, *fence));
                        self.grants.insert(
                            (lock, *fence),
                            Known {
                                since: now,
                                claimed: false,
                                told: false,
                                until: *until,
                                session,
                                failed_over: why == Why::Failover || is_again,
                                back: false,
                                closed: false,
                                shorter: false,
                                ended: None,
                            },
                        );
                        new.push(owner.clone());
                    }
                }
            }
            if !self.in_order(lock, &queue, &new) {
                self.fault = Some(Fault::NotTheFirst(lock));
            }
            self.queues[lock] = queue;
            let its = (lock, Fence::MIN)..=(lock, Fence::MAX);
            for ((_, fence), known) in self.grants.range_mut(its) {
                if known.ended.is_none() && !seen.contains_key(fence) {
                    known.ended = Some(why);
                    known.failed_over |= why == Why::Failover;
                }
            }
            let holders = self.server.holders_of(lock, now);
            if holders
                .iter()
                .any(|held| held.grant.room().most().is_some_and(|most| holders.len() > most as usize))
            {
                self.fault = Some(Fault::TooMany(lock));
            }
        }
        // Nobody relies any more on a grant that ended long ago.
        if self.grants.len() > 200 {
            self.grants.retain(|_, known| known.ended.is_none() || known.until >= Deadline::At(now - 60_000));
        }
    }

    /// Whether no new holder of this lock has passed over an earlier waiter that still waits for this lock alone, and that would have
    /// fitted as well.
    fn in_order(&self, lock: Lock, queue: &[QueuedRequest], new: &[Owner<'static>]) -> bool {
        let before = &self.queues[lock];
        new.iter().all(|owner| {
            let place = before.iter().position(|asked| asked.owner == *owner);
            let ahead = &before[..place.unwrap_or(before.len())];
            let room = self.server.holders_of(lock, self.clock()).into_iter();
            let room = room
                .map(|held| held.grant)
                .find(|grant| grant.owner() == *owner)
                .map_or(Room::ONE, |grant| grant.room());
            ahead.iter().all(|other| {
                // An owner that got the lock may have asked again in the same step.
                let still =
                    queue.iter().any(|asked| asked.request == other.request) && !new.contains(&other.owner);
                !still || other.room < room || other.slot.is_some() || self.is_several(lock, other)
            })
        })
    }

    /// Whether this waiter waits for other locks, too.
    fn is_several(&self, lock: Lock, asked: &QueuedRequest) -> bool {
        (0..KEYS.len()).any(|other| {
            other != lock && self.server.asks_of(other).iter().any(|it| it.request == asked.request)
        })
    }

    /// Checks that nobody waits for a free lock when the server has nothing to do.
    pub(super) fn check_queues(&mut self) {
        let (rules, now) = (self.rules, self.clock());
        if self.server.grace_left(rules, now).grants > 0 || now < self.late {
            return;
        }
        for lock in 0..KEYS.len() {
            if self.server.holders_of(lock, now).is_empty()
                && let Some(first) = self.server.asks_of(lock).first()
                && !self.is_several(lock, first)
            {
                self.fault = Some(Fault::FreeWithAQueue(lock));
            }
        }
    }

    /// Notes that an owner was told of its acquire or extension: the lease must now be at least as long as requested.
    pub(super) fn claim(&mut self, p: usize, owner: &[u8], asks: bool) {
        if self.server.grace_left(self.rules, self.clock()).leases > 0 {
            // A server that was away does not extend leases.
            self.leases.remove(&wire::owner(owner));
        }
        let Process { tasks, core, .. } = &self.processes[p];
        for lock in 0..KEYS.len() {
            let held = self.server.all_held_of(lock).into_iter();
            for held in held.filter(|held| held.grant.owner().text().as_ref() == owner) {
                let fence = held.grant.fence();
                let Some(known) = self.grants.get_mut(&(lock, fence)) else { continue };
                known.claimed = true;
                let asked = self.leases.get(&held.grant.owner()).map(|lease| known.since + lease);
                let is_short = asked.is_some_and(|asked| held.deadline < Deadline::At(asked));
                // A core in doubt may ask again and get a new grant, which it then releases.
                let relies = |task: &Task| matches!(task, Task::Holds { id, .. } if core.belief(*id).is_some_and(|(its, _)| its.contains(&fence.get())));
                if asks && is_short && !known.failed_over && tasks.iter().any(relies) {
                    self.fault = Some(Fault::EndsTooSoon(lock));
                }
            }
        }
    }

    /// Checks the changes that a `LOCK.BREAK` has made.
    pub(super) fn check_break(&mut self, lock: Lock) {
        let effects = &self.server.effects;
        for (at, (_, effect)) in effects.iter().enumerate() {
            let (Effect::Alone(grant, _) | Effect::Among(grant, _)) = effect else { continue };
            let fence = grant.fence();
            let ends = |(_, later): &(Lock, Effect)| *later == Effect::Free || *later == Effect::Ended(fence);
            if !self.grants.contains_key(&(lock, fence)) && effects[at..].iter().any(ends) {
                self.fault = Some(Fault::BreaksWhatItMade(fence.get()));
            }
        }
    }

    /// Checks the messages of one event.
    pub(super) fn check_messages(&mut self, messages: &[Message]) {
        for message in messages {
            let (MessageKind::Granted(fence) | MessageKind::Start { fence, .. }) = message.kind else {
                continue;
            };
            if self.server.unheard.contains(&*message.channel.address) {
                let its = |process: &Process| process.core.channel.as_bytes() == &*message.channel.address;
                let process = self.processes.iter().position(its).unwrap();
                let locks = (0..KEYS.len()).map(|lock| (process, lock, fence));
                self.untold.extend(locks);
            } else {
                let its = self.grants.iter_mut().filter(|((_, its), _)| *its == fence);
                its.for_each(|(_, known)| known.told = true);
            }
        }
    }

    /// Checks, when the server has nothing to do, that no grant belongs to an owner that could not be told.
    pub(super) fn check_told(&mut self) {
        for (_, lock, fence) in std::mem::take(&mut self.untold) {
            // The grant may have been claimed by another acquire of its owner, or its own acquire may still wait for replicas.
            let is_claimed = self.grants.get(&(lock, fence)).is_some_and(|known| known.claimed || known.told);
            let held = self.server.all_held_of(lock).into_iter().find(|held| held.grant.fence() == fence);
            if held.is_some_and(|held| !is_claimed && !self.is_blocked(&held.grant.owner())) {
                self.fault = Some(Fault::Untold(fence.get()));
            }
        }
    }

    /// Checks that a process that was told of a loss no longer believes that it holds the lock.
    pub(super) fn check_loss(&mut self, p: usize, message: &[u8]) {
        let text = String::from_utf8_lossy(message);
        let Some((fence, owner)) = text.strip_prefix("lost ").and_then(|rest| rest.split_once(' ')) else {
            return;
        };
        for task in &self.processes[p].tasks {
            let Task::Holds { granted, id, .. } = task else { continue };
            let believes = self.processes[p].core.belief(*id).is_some_and(|(fences, _)| {
                granted.owner == owner.as_bytes() && fences.iter().any(|its| its.to_string() == fence)
            });
            if believes {
                self.fault = Some(Fault::IgnoresLoss(fence.parse().unwrap()));
            }
        }
    }

    /// Checks that a process that is done with an owner has released what the owner held.
    pub(super) fn check_ends(&mut self, p: usize) {
        let core = &self.processes[p].core;
        let mut ended = Vec::new();
        self.asked.retain(|owner, asked| {
            let is_over = asked.process == p && core.stage(asked.id) == "over";
            ended.extend(is_over.then(|| (owner.clone(), asked.highest)));
            !is_over
        });
        for (owner, highest) in ended {
            for lock in 0..KEYS.len() {
                let held = self.server.holders_of(lock, self.clock()).into_iter();
                for held in held.filter(|held| held.grant.owner().text().as_ref() == owner.as_slice()) {
                    let fence = held.grant.fence();
                    let is_new = highest.is_none_or(|highest| fence > highest);
                    if is_new && self.grants.get(&(lock, fence)).is_some_and(|known| !known.failed_over) {
                        self.fault = Some(Fault::Forgets(fence.get()));
                    }
                }
            }
        }
    }

    /// Returns everything that still goes on.
    pub(super) fn left(&mut self) -> Vec<String> {
        let now = self.clock();
        let mut left = Vec::new();
        for (p, process) in self.processes.iter_mut().enumerate().filter(|(_, process)| !process.dead) {
            process.core.unused = true;
            if !process.tasks.iter().all(|task| matches!(task, Task::Idle)) {
                left.push(format!("a task of p{p}"));
            }
            if !process.core.is_over() {
                left.push(format!("what p{p} has to give back"));
            }
            process.core.unused = false;
        }
        left.extend(
            (0..KEYS.len())
                .flat_map(|lock| self.server.holders_of(lock, now))
                .map(|held| format!("{held:?}")),
        );
        left.extend(self.server.next_due().map(|at| format!("due at {at}, now {now}")));
        left.extend((!self.server.is_empty()).then(|| "something in the table".to_string()));
        left
    }
}
