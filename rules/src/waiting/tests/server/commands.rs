//! The commands that clients send to the small server.

use super::turn::{Client, number};
use super::{Blocked, Conn, Lock, Reply, Rules, Server, time};
use crate::lock::{AcquireRequest, Deadline, Millis, Owner};
use crate::waiting::{
    self, ExtendRequest, GivenUp, Outcome, Refusal, ReleaseRequest, WaitLimits, WaitOptions,
};

impl Server {
    /// Runs `LOCK.ACQUIRE` for the given lock.
    pub(crate) fn acquire_on(
        &mut self,
        rules: Rules,
        now: Millis,
        conn: Conn,
        lock: Lock,
        ask: &AcquireRequest<'static>,
        wait: &WaitOptions,
    ) -> Reply {
        let mut client = self.client(rules, conn);
        let mut turn = self.turn(rules, now);
        turn.lock = lock;
        turn.expire();
        let outcome = waiting::acquire(&mut turn, &mut client, ask, wait, time(now));
        self.note_blocked(&client);
        match outcome {
            Ok(Outcome::Granted((got, until))) => Reply::granted(got, until),
            outcome => no_grant(outcome),
        }
    }

    /// Runs `LOCK.MACQUIRE`.
    pub(crate) fn acquire_all(
        &mut self,
        rules: Rules,
        now: Millis,
        conn: Conn,
        locks: &[Lock],
        ask: &AcquireRequest<'static>,
        wait: &WaitOptions,
    ) -> Reply {
        let mut client = self.client(rules, conn);
        let mut turns = self.turns(rules, now, locks);
        let outcome = waiting::acquire(&mut turns, &mut client, ask, wait, time(now));
        self.note_blocked(&client);
        match outcome {
            Ok(Outcome::Granted((all, until))) => Reply::All(all, until),
            outcome => no_grant(outcome),
        }
    }

    /// Runs `LOCK.MRELEASE`. Returns how many holds of each lock are left; `None` for a lock that the owner does not hold.
    pub(crate) fn release_all(
        &mut self,
        rules: Rules,
        now: Millis,
        locks: &[Lock],
        owner: &Owner<'_>,
        all: bool,
    ) -> Vec<Option<u32>> {
        self.release_each(rules, now, locks, ReleaseRequest { owner, fence: None, all })
    }

    /// Runs `LOCK.MRELEASE` with any options.
    pub(crate) fn release_each(
        &mut self,
        rules: Rules,
        now: Millis,
        locks: &[Lock],
        given: ReleaseRequest<'_>,
    ) -> Vec<Option<u32>> {
        let mut turns = self.turns(rules, now, locks);
        waiting::release(&mut turns, given, || time(now)).into_iter().map(Result::ok).collect()
    }

    /// Runs `LOCK.MEXTEND`, or `LOCK.EXTEND` for one lock, with any options.
    pub(crate) fn extend_each(
        &mut self,
        rules: Rules,
        now: Millis,
        conn: Conn,
        locks: &[Lock],
        longer: &ExtendRequest<'_>,
    ) -> Reply {
        let mut client = self.client(rules, conn);
        let outcome = match locks {
            [lock] => {
                let mut turn = self.turn(rules, now);
                turn.lock = *lock;
                turn.expire();
                waiting::extend(&mut turn, &mut client, longer, time(now))
            }
            locks => waiting::extend(&mut self.turns(rules, now, locks), &mut client, longer, time(now)),
        };
        self.note_blocked(&client);
        match outcome {
            Ok(Outcome::Granted(until)) => Reply::Extended(until),
            Err(Refusal::NotHeld(..)) => Reply::NotHeld,
            outcome => no_grant(outcome),
        }
    }

    /// Runs `LOCK.LEAVE` for the given lock.
    pub(crate) fn leave_on(&mut self, rules: Rules, now: Millis, lock: Lock, owner: &Owner<'_>) -> bool {
        let mut turn = self.turn(rules, now);
        turn.lock = lock;
        turn.expire();
        let GivenUp { any, others } = waiting::leave(&mut turn, owner, time(now));
        let others: Vec<Lock> = others.iter().map(number).collect();
        if !others.is_empty() {
            waiting::leave_others(&mut self.turns(rules, now, &others), owner, time(now));
        }
        any
    }

    /// Runs `LOCK.RELEASE` for the first lock. Returns how many holds are left; `None` if the owner does not hold the lock.
    pub(crate) fn release(
        &mut self,
        rules: Rules,
        now: Millis,
        owner: &Owner<'_>,
        fence: Option<u64>,
        all: bool,
    ) -> Option<u32> {
        self.release_on(rules, now, 0, ReleaseRequest { owner, fence, all })
    }

    /// Runs `LOCK.RELEASE` for the given lock.
    pub(crate) fn release_on(
        &mut self,
        rules: Rules,
        now: Millis,
        lock: Lock,
        given: ReleaseRequest<'_>,
    ) -> Option<u32> {
        let mut turn = self.turn(rules, now);
        turn.lock = lock;
        turn.expire();
        waiting::release(&mut turn, given, || time(now)).ok()
    }

    /// Runs `LOCK.EXTEND`. Returns the new end of the lease; `None` if this owner does not hold the lock, or leases may not be extended
    /// now.
    pub(crate) fn extend(
        &mut self,
        rules: Rules,
        now: Millis,
        owner: &Owner<'_>,
        fence: Option<u64>,
        lease: Millis,
    ) -> Option<Deadline> {
        let longer = ExtendRequest { owner, fence, lease, confirm: None };
        extended(self.extend_each(rules, now, 0, &[0], &longer))
    }

    fn client(&self, rules: Rules, conn: Conn) -> Client {
        let limits =
            WaitLimits { waiters: rules.most_waiters, places: rules.most_places, claim: rules.claim };
        Client { conn, id: self.conns[usize::from(conn)].id, blocked: None, limits }
    }

    fn note_blocked(&mut self, client: &Client) {
        if let Some(request) = client.blocked {
            self.blocked.insert(request, Blocked::new(client.conn, client.id));
        }
    }

    /// Runs `LOCK.BREAK` for the given lock.
    pub(crate) fn break_on(&mut self, rules: Rules, now: Millis, lock: Lock, fence: Option<u64>) -> usize {
        let mut turn = self.turn(rules, now);
        turn.lock = lock;
        turn.expire();
        waiting::break_(&mut turn, fence, || time(now)).len()
    }
}

fn extended(reply: Reply) -> Option<Deadline> {
    if let Reply::Extended(until) = reply { Some(until) } else { None }
}

fn no_grant<G>(outcome: Result<Outcome<G>, Refusal>) -> Reply {
    match outcome {
        Ok(Outcome::Granted(_)) => panic!("a grant"),
        Ok(Outcome::Waits) => Reply::Waits,
        Ok(Outcome::Queued) => Reply::Queued,
        Ok(Outcome::Taken) => Reply::Null,
        Err(Refusal::Grace(_) | Refusal::GraceOfLeases(_)) => Reply::Grace,
        Err(Refusal::NoReentry(why)) => Reply::NoReentry(why),
        Err(Refusal::Deadlock) => Reply::Deadlock,
        Err(Refusal::Cycle(cycle)) => Reply::Cycle(cycle),
        Err(Refusal::MaxPlaces | Refusal::MaxWaiters) => Reply::TooMany,
        Err(refusal) => panic!("{refusal:?}"),
    }
}
