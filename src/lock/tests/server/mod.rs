//! A server in small: one lock with its queue and its session, around the real decisions.
//!
//! Grants, fences, decisions and the queue are `lock`'s own. What `commands`, `keyspace` and `waiting` do around them needs
//! a server, so here it stands as its rule, under the names that it has there. Time comes in; nothing is random.

mod commands;
mod keyspace;
mod waiting;

use std::collections::BTreeMap;

use crate::lock::{Ask, Deadline, Fence, FenceClock, Grant, Held, Limits, Millis, Queue, Ticket};

/// A connection.
pub(super) type Conn = u8;

/// What is so in the whole of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    pub(super) max_hold: Option<Millis>,
    /// In a grace, the owner of a grant may re-enter it.
    pub(super) reenter_in_grace: bool,
    /// In a grace, the owner of a grant may extend it.
    pub(super) extend_in_grace: bool,
}

impl Rules {
    fn limits(self) -> Limits {
        Limits { max_hold: self.max_hold, lengthen: true }
    }
}

/// What a client is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Reply {
    Granted { fence: Fence, holds: u32, deadline: Deadline },
    Null,
    Grace,
    Waits,
    TooManyHolds,
}

/// What replicas are told: `LOCK.APPLY`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Effect {
    Held(Grant, Deadline),
    Lease(Deadline),
    Free,
}

/// A client that is blocked in an acquire.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Waiter {
    conn: Conn,
    ask: Ask<'static>,
    gives_up: Option<Millis>,
    /// Out of the queue, and to be told that.
    answer: Option<Reply>,
    /// A hold was made for it.
    own_hold: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Session {
    conn: Conn,
    fence: Fence,
    lease: Millis,
    renew_at: Millis,
    over: bool,
}

/// The server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Server {
    lock: Option<(Grant, Deadline)>,
    pub(super) fences: FenceClock,
    queue: Queue,
    waiters: BTreeMap<Ticket, Waiter>,
    session: Option<Session>,
    /// Grants whose waiters went away before they were told.
    dead: Vec<Fence>,
    /// When to look at the lock by itself.
    alarm: Option<Millis>,
    /// Nothing new is granted before that.
    grace_ends: Millis,
    /// Told to nobody yet.
    pub(super) effects: Vec<Effect>,
}

impl Server {
    pub(super) fn new() -> Self {
        Self {
            lock: None,
            fences: FenceClock::new(),
            queue: Queue::default(),
            waiters: BTreeMap::new(),
            session: None,
            dead: Vec::new(),
            alarm: None,
            grace_ends: 0,
            effects: Vec::new(),
        }
    }

    /// A replica becomes a primary that grants nothing before that time.
    pub(super) fn promote(&mut self, grace_ends: Millis) {
        self.grace_ends = grace_ends;
    }

    /// The grant, within its lease.
    pub(super) fn held(&self, now: Millis) -> Option<Held<'_>> {
        let (grant, deadline) = self.lock.as_ref()?;
        (Deadline::At(now) <= *deadline).then_some(Held { grant, deadline: *deadline })
    }

    /// Whether something has happened that the next look at the lock sets right: a waiter or a session is gone.
    pub(super) fn is_unsettled(&self) -> bool {
        !self.dead.is_empty() || self.session.is_some_and(|session| session.over)
    }

    pub(super) fn grants_nothing(&self, now: Millis) -> bool {
        now < self.grace_ends
    }

    /// The connections in the queue, first come first.
    pub(super) fn queued(&self) -> Vec<Conn> {
        self.queue.iter().map(|ticket| self.waiters[ticket].conn).collect()
    }

    /// The connections that the server has not freed yet.
    pub(super) fn blocked(&self) -> Vec<Conn> {
        self.waiters.values().map(|waiter| waiter.conn).collect()
    }

    /// The connection that keeps the grant alive.
    pub(super) fn session(&self) -> Option<Conn> {
        self.session.map(|session| session.conn)
    }

    /// When something is to be done by itself; 0: now.
    pub(super) fn next_due(&self) -> Option<Millis> {
        if self.waiters.values().any(|waiter| waiter.answer.is_some()) {
            return Some(0);
        }
        let timeouts = self.waiters.values().filter_map(|waiter| waiter.gives_up);
        self.alarm.into_iter().chain(timeouts).min()
    }

    /// Numbers the waiters anew, from 1 and in the same order: two servers that differ in no more are the same.
    pub(super) fn renumber(&mut self) {
        let queued: Vec<Ticket> = self.queue.iter().copied().collect();
        self.queue = Queue::default();
        for ((old, waiter), number) in std::mem::take(&mut self.waiters).into_iter().zip(1..) {
            if queued.contains(&old) {
                self.queue.join(Ticket(number), waiter.ask.owner.clone());
            }
            self.waiters.insert(Ticket(number), waiter);
        }
    }
}
