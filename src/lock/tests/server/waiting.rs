//! The queue, the session and the alarm.

use super::{Conn, Reply, Rules, Server, Session, Waiter};
use crate::lock::{Acquired, Deadline, Fence, Millis, Owner, Ticket, acquire, lengthen};

impl Server {
    /// A connection closes.
    pub(in crate::lock::tests) fn close(&mut self, conn: Conn, now: Millis) {
        let ticket = self.waiters.iter().find(|(_, waiter)| waiter.conn == conn).map(|(&ticket, _)| ticket);
        if let Some((ticket, waiter)) = ticket.and_then(|ticket| self.waiters.remove_entry(&ticket)) {
            self.queue.leave(ticket, &waiter.ask.owner);
            if let (Some(Reply::Granted { fence, .. }), true) = (waiter.answer, waiter.own_hold) {
                // One that came later and asked for the grant back with `ONCE` has been told of the same hold: it is
                // that one's now.
                let heir = self.waiters.range_mut(ticket..).map(|(_, heir)| heir).find(|heir| {
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
    pub(in crate::lock::tests) fn ring(&mut self, rules: Rules, now: Millis) -> Vec<(Conn, Reply)> {
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

    pub(super) fn pass_on(&mut self, rules: Rules, now: Millis) {
        if !self.grant_head(rules, now) {
            self.free();
        }
        self.calm();
    }

    pub(super) fn settle(&mut self, rules: Rules, now: Millis) {
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

    pub(super) fn bind(&mut self, conn: Conn, fence: Fence, lease: Millis, now: Millis) {
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
    pub(super) fn lease_moved(&mut self, now: Millis) {
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
