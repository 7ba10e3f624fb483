//! A server in small: one lock with its queue and its session, around the real decisions.
//!
//! Grants, fences, decisions and the queue are `lock`'s own. What `commands`, `keyspace` and `waiting` do around them needs
//! a server, so here it stands as its rule, under the names that it has there. Time comes in; nothing is random.

use std::collections::BTreeMap;

use crate::lock::{
    Acquired, Ask, Deadline, Fence, FenceClock, Grant, Held, Limits, Millis, Owner, Queue, Released, Ticket,
    acquire, extend, lengthen, may_break, release,
};

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

    /// A replica applies what its primary told.
    pub(super) fn apply(&mut self, effect: Effect) {
        match effect {
            Effect::Held(grant, deadline) => {
                self.fences.observe(grant.fence());
                self.lock = Some((grant, deadline));
            }
            Effect::Lease(deadline) => {
                if let Some((_, old)) = &mut self.lock {
                    *old = deadline;
                }
            }
            Effect::Free => self.lock = None,
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

    /// Who holds the lock.
    pub(super) fn holder(&self, now: Millis) -> Option<Owner<'_>> {
        self.held(now).map(|held| held.grant.owner())
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

    /// `LOCK.ACQUIRE`; `block`: how long to wait, 0 without limit.
    pub(super) fn acquire(
        &mut self,
        rules: Rules,
        now: Millis,
        conn: Conn,
        ask: &Ask<'static>,
        block: Option<Millis>,
    ) -> Reply {
        self.expire(now);
        self.settle(rules, now);
        let grace = self.grants_nothing(now) || (self.lock.is_none() && !self.queue.is_empty());
        let reentry_refused = self.grants_nothing(now) && !rules.reenter_in_grace;
        let (fence, holds, deadline) = match acquire(self.held(now), ask, rules.limits(), now) {
            Err(_) => return Reply::TooManyHolds,
            Ok(Acquired::Granted { deadline }) if !grace => (self.grant_to(ask, now, deadline), 1, deadline),
            Ok(Acquired::Reentered { holds, deadline }) if !reentry_refused => {
                self.update(holds, deadline);
                (self.fence().unwrap(), holds, deadline)
            }
            Ok(outcome) => {
                let Some(timeout) = block else {
                    let refused = outcome == Acquired::Refused;
                    return if refused { Reply::Null } else { Reply::Grace };
                };
                let ticket = Ticket(self.waiters.keys().next_back().map_or(1, |last| last.0 + 1));
                self.queue.join(ticket, ask.owner.clone());
                let gives_up = (timeout > 0).then_some(now + timeout + 1);
                let waiter = Waiter { conn, ask: ask.clone(), gives_up, answer: None, own_hold: false };
                self.waiters.insert(ticket, waiter);
                self.lease_moved(now);
                return Reply::Waits;
            }
        };
        if ask.session {
            self.bind(conn, fence, ask.lease, now);
        }
        Reply::Granted { fence, holds, deadline }
    }

    /// `LOCK.RELEASE`: the holds left; none: not held by this owner.
    pub(super) fn release(
        &mut self,
        rules: Rules,
        now: Millis,
        owner: &Owner<'_>,
        fence: Option<u64>,
        all: bool,
    ) -> Option<u32> {
        self.expire(now);
        match release(self.lock.as_ref().map(|(grant, _)| grant), owner, fence, all)? {
            Released::Kept { holds } => {
                self.set_holds(holds);
                Some(holds)
            }
            Released::Ended => {
                self.pass_on(rules, now);
                Some(0)
            }
        }
    }

    /// `LOCK.EXTEND`: the new end of the lease; none: not held by this owner, or not now.
    pub(super) fn extend(
        &mut self,
        rules: Rules,
        now: Millis,
        owner: &Owner<'_>,
        fence: Option<u64>,
        lease: Millis,
    ) -> Option<Deadline> {
        self.expire(now);
        self.settle(rules, now);
        let (grant, _) = self.lock.as_ref()?;
        let holds = grant.holds();
        let deadline = extend(Some(grant), owner, fence, lease, rules.limits(), now)?;
        if self.grants_nothing(now) && !rules.extend_in_grace {
            return None;
        }
        self.update(holds, deadline);
        self.lease_moved(now);
        Some(deadline)
    }

    /// `LOCK.BREAK`: whether there was what to break.
    pub(super) fn break_(&mut self, rules: Rules, now: Millis, fence: Option<u64>) -> bool {
        self.expire(now);
        let may = may_break(self.lock.as_ref().map(|(grant, _)| grant), fence);
        if may {
            self.pass_on(rules, now);
        }
        may
    }

    /// A connection closes.
    pub(super) fn close(&mut self, conn: Conn, now: Millis) {
        let ticket = self.waiters.iter().find(|(_, waiter)| waiter.conn == conn).map(|(&ticket, _)| ticket);
        if let Some((ticket, waiter)) = ticket.and_then(|ticket| self.waiters.remove_entry(&ticket)) {
            self.queue.leave(ticket, &waiter.ask.owner);
            if let (Some(Reply::Granted { fence, .. }), true) = (waiter.answer, waiter.own_hold) {
                // One that asked for the grant back with `ONCE` has been told of the same hold: it is that one's now.
                let heir = self.waiters.values_mut().find(|heir| {
                    !heir.own_hold
                        && matches!(heir.answer, Some(Reply::Granted { fence: f, .. }) if f == fence)
                });
                match heir {
                    Some(heir) => heir.own_hold = true,
                    None => {
                        self.dead.push(fence);
                        self.alarm_at(now);
                    }
                }
            }
        }
        if let Some(session) = self.session.as_mut().filter(|session| session.conn == conn) {
            session.over = true;
            self.alarm_at(now);
        }
        self.calm();
    }

    /// What the server does by itself: rings the alarm, ends waits, and tells those who are to be told.
    pub(super) fn ring(&mut self, rules: Rules, now: Millis) -> Vec<(Conn, Reply)> {
        if self.alarm.is_some_and(|at| at <= now) {
            self.alarm = None;
            self.expire(now);
            self.settle(rules, now);
        }
        for (&ticket, waiter) in &mut self.waiters {
            if waiter.answer.is_none() && waiter.gives_up.is_some_and(|at| at <= now) {
                self.queue.leave(ticket, &waiter.ask.owner);
                waiter.gives_up = None;
                waiter.answer = Some(Reply::Null);
            }
        }
        self.calm();
        let told = self.waiters.values().filter_map(|waiter| Some((waiter.conn, waiter.answer?))).collect();
        self.waiters.retain(|_, waiter| waiter.answer.is_none());
        told
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

    /// A lease that is over ends the grant when somebody looks.
    fn expire(&mut self, now: Millis) {
        if self.held(now).is_none() {
            self.free();
        }
    }

    fn free(&mut self) {
        if self.lock.take().is_some() {
            self.effects.push(Effect::Free);
        }
    }

    fn fence(&self) -> Option<Fence> {
        self.lock.as_ref().map(|(grant, _)| grant.fence())
    }

    fn grant_to(&mut self, ask: &Ask<'static>, now: Millis, deadline: Deadline) -> Fence {
        let fence = self.fences.next(now * 1000).unwrap();
        let grant = Grant::new(ask.owner.clone(), fence, 1, ask.max_hold);
        self.effects.push(Effect::Held(grant.clone(), deadline));
        self.lock = Some((grant, deadline));
        fence
    }

    fn set_holds(&mut self, holds: u32) {
        if let Some((_, deadline)) = self.lock {
            self.update(holds, deadline);
        }
    }

    fn update(&mut self, holds: u32, deadline: Deadline) {
        let Some((grant, old)) = &mut self.lock else { return };
        if grant.holds() != holds {
            grant.set_holds(holds);
            self.effects.push(Effect::Held(grant.clone(), deadline));
        } else if *old != deadline {
            self.effects.push(Effect::Lease(deadline));
        }
        *old = deadline;
    }

    fn pass_on(&mut self, rules: Rules, now: Millis) {
        if !self.grant_head(rules, now) {
            self.free();
        }
        self.calm();
    }

    fn settle(&mut self, rules: Rules, now: Millis) {
        for fence in std::mem::take(&mut self.dead) {
            let owner = self.lock.as_ref().map(|(grant, _)| grant.owner().into_owned());
            if let Some(owner) = owner {
                self.release(rules, now, &owner, Some(fence.get()), false);
            }
        }
        self.settle_session(rules, now);
        match self.lock.as_ref().map(|(grant, _)| grant.owner().into_owned()) {
            Some(owner) => {
                self.reenter(rules, &owner, now);
                self.lease_moved(now);
            }
            None => _ = self.grant_head(rules, now),
        }
        self.calm();
    }

    fn settle_session(&mut self, rules: Rules, now: Millis) {
        let Some(session) = self.session else { return };
        let Some(held) = self.held(now).filter(|held| held.grant.fence() == session.fence) else {
            self.session = None;
            return;
        };
        if session.over {
            self.pass_on(rules, now);
        } else if session.renew_at <= now || held.deadline < Deadline::At(session.renew_at) {
            let (holds, deadline) = (held.grant.holds(), lengthen(held, session.lease, rules.limits(), now));
            self.update(holds, deadline);
            self.bind(session.conn, session.fence, session.lease, now);
        } else {
            self.alarm_at(session.renew_at);
        }
    }

    fn bind(&mut self, conn: Conn, fence: Fence, lease: Millis, now: Millis) {
        let renew_at = now + (lease / 3).max(1);
        self.session = Some(Session { conn, fence, lease, renew_at, over: false });
        self.alarm_at(renew_at);
    }

    fn grant_head(&mut self, rules: Rules, now: Millis) -> bool {
        self.session = None;
        let Some(ticket) = self.queue.head() else { return false };
        if self.grants_nothing(now) {
            self.alarm_at(self.grace_ends);
            return false;
        }
        let Waiter { conn, ask, .. } = self.waiters[&ticket].clone();
        let deadline = ask.first_deadline(rules.limits(), now);
        let fence = self.grant_to(&ask, now, deadline);
        if ask.session {
            self.bind(conn, fence, ask.lease, now);
        }
        self.answer(ticket, Reply::Granted { fence, holds: 1, deadline }, true);
        self.reenter(rules, &ask.owner, now);
        self.lease_moved(now);
        true
    }

    fn reenter(&mut self, rules: Rules, owner: &Owner<'static>, now: Millis) {
        if self.grants_nothing(now) && !rules.reenter_in_grace {
            if self.queue.first_of(owner).is_some() {
                self.alarm_at(self.grace_ends);
            }
            return;
        }
        while let Some(ticket) = self.queue.first_of(owner) {
            let Waiter { conn, ask, .. } = self.waiters[&ticket].clone();
            let Some(fence) = self.fence() else { return };
            match acquire(self.held(now), &ask, rules.limits(), now) {
                Ok(Acquired::Reentered { holds, deadline }) => {
                    self.update(holds, deadline);
                    if ask.session {
                        self.bind(conn, fence, ask.lease, now);
                    }
                    self.answer(ticket, Reply::Granted { fence, holds, deadline }, !ask.once);
                }
                Err(_) => self.answer(ticket, Reply::TooManyHolds, false),
                Ok(_) => return,
            }
        }
    }

    fn answer(&mut self, ticket: Ticket, answer: Reply, own_hold: bool) {
        let waiter = self.waiters.get_mut(&ticket).unwrap();
        self.queue.leave(ticket, &waiter.ask.owner);
        waiter.gives_up = None;
        waiter.answer = Some(answer);
        waiter.own_hold = own_hold;
    }

    /// Takes note of when the lease ends, for those who wait.
    fn lease_moved(&mut self, now: Millis) {
        if self.queue.is_empty() {
            return;
        }
        match self.lock {
            Some((_, Deadline::At(last))) => self.alarm_at(last + 1),
            Some((_, Deadline::Never)) => {}
            // Free for the time of the grace: looked at when that is over.
            None => self.alarm_at(self.grace_ends.max(now)),
        }
    }

    fn alarm_at(&mut self, at: Millis) {
        self.alarm = Some(self.alarm.map_or(at, |earlier| earlier.min(at)));
    }

    /// Where nobody waits and no session is held, there is nothing to look at.
    fn calm(&mut self) {
        if self.queue.is_empty() && self.session.is_none() && self.dead.is_empty() {
            self.alarm = None;
        }
    }
}
