//! What clients ask for.

use super::{Conn, Reply, Rules, Server, Waiter};
use crate::lock::{
    Acquired, Ask, Deadline, Millis, Owner, Released, Ticket, acquire, extend, may_break, release,
};

impl Server {
    /// `LOCK.ACQUIRE`; `block`: how long to wait, 0 without limit.
    pub(in crate::lock::tests) fn acquire(
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
    pub(in crate::lock::tests) fn release(
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
    pub(in crate::lock::tests) fn extend(
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
    pub(in crate::lock::tests) fn break_(&mut self, rules: Rules, now: Millis, fence: Option<u64>) -> bool {
        self.expire(now);
        let may = may_break(self.lock.as_ref().map(|(grant, _)| grant), fence);
        if may {
            self.pass_on(rules, now);
        }
        may
    }
}
