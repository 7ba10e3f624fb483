//! The commands that clients send to the small server.

use super::clients::Blocked;
use super::turn::{Client, number};
use super::{Conn, Lock, Reply, Rules, Server, time};
use crate::lock::{AcquireRequest, Deadline, Millis, Owner};
use crate::waiting::{
    self, ExtendRequest, GivenUp, Outcome, Refusal, ReleaseRequest, WaitLimits, WaitOptions,
};

impl Server {
    /// Runs `LOCK.ACQUIRE` for the first lock.
    pub(crate) fn acquire(
        &mut self,
        rules: Rules,
        now: Millis,
        conn: Conn,
        ask: &AcquireRequest<'static>,
        wait: &WaitOptions,
    ) -> Reply {
        self.acquire_on(rules, now, conn, 0, ask, wait)
    }

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
        let mut turns = self.turns(rules, now, locks);
        let given = ReleaseRequest { owner, fence: None, all };
        waiting::release(&mut turns, given, || time(now)).into_iter().map(Result::ok).collect()
    }

    /// Runs `LOCK.MEXTEND`. Returns the end of the lease that ends first; `None` if the owner does not hold all locks, or leases may not be
    /// extended now.
    pub(crate) fn extend_all(
        &mut self,
        rules: Rules,
        now: Millis,
        locks: &[Lock],
        owner: &Owner<'_>,
        lease: Millis,
    ) -> Option<Deadline> {
        let mut client = self.client(rules, 0);
        let longer = ExtendRequest { owner, fence: None, lease, confirm: None };
        let mut turns = self.turns(rules, now, locks);
        extended(waiting::extend(&mut turns, &mut client, &longer, time(now)))
    }

    /// Runs `LOCK.LEAVE`. Returns whether the owner had anything to give up.
    pub(crate) fn leave(&mut self, rules: Rules, now: Millis, owner: &Owner<'_>) -> bool {
        let mut turn = self.turn(rules, now);
        turn.expire();
        let GivenUp { any, others } = waiting::leave(&mut turn, owner, time(now));
        let others: Vec<Lock> = others.iter().map(number).collect();
        if !others.is_empty() {
            waiting::leave_others(&mut self.turns(rules, now, &others), owner, time(now));
        }
        any
    }

    /// Runs `LOCK.RELEASE`. Returns how many holds are left; `None` if the owner does not hold the lock.
    pub(crate) fn release(
        &mut self,
        rules: Rules,
        now: Millis,
        owner: &Owner<'_>,
        fence: Option<u64>,
        all: bool,
    ) -> Option<u32> {
        let mut turn = self.turn(rules, now);
        turn.expire();
        waiting::release(&mut turn, ReleaseRequest { owner, fence, all }, || time(now)).ok()
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
        let mut client = self.client(rules, 0);
        let longer = ExtendRequest { owner, fence, lease, confirm: None };
        let mut turn = self.turn(rules, now);
        turn.expire();
        extended(waiting::extend(&mut turn, &mut client, &longer, time(now)))
    }

    /// Runs `LOCK.EXTEND` with `SYNC`. Returns whether the client waits for replicas.
    pub(crate) fn extend_confirmed(
        &mut self,
        rules: Rules,
        now: Millis,
        conn: Conn,
        longer: &ExtendRequest<'_>,
    ) -> bool {
        let mut client = self.client(rules, conn);
        let mut turn = self.turn(rules, now);
        turn.expire();
        let outcome = waiting::extend(&mut turn, &mut client, longer, time(now));
        self.note_blocked(&client);
        outcome == Ok(Outcome::Waits)
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

    /// Runs `LOCK.BREAK`. Returns how many grants have ended.
    pub(crate) fn break_(&mut self, rules: Rules, now: Millis, fence: Option<u64>) -> usize {
        self.break_on(rules, now, 0, fence)
    }

    /// Runs `LOCK.BREAK` for the given lock.
    pub(crate) fn break_on(&mut self, rules: Rules, now: Millis, lock: Lock, fence: Option<u64>) -> usize {
        let mut turn = self.turn(rules, now);
        turn.lock = lock;
        turn.expire();
        waiting::break_(&mut turn, fence, || time(now)).len()
    }
}

fn extended(outcome: Result<Outcome<Deadline>, Refusal>) -> Option<Deadline> {
    match outcome {
        Ok(Outcome::Granted(until)) => Some(until),
        _ => None,
    }
}

fn no_grant<G>(outcome: Result<Outcome<G>, Refusal>) -> Reply {
    match outcome {
        Ok(Outcome::Granted(_)) => panic!("a grant"),
        Ok(Outcome::Waits) => Reply::Waits,
        Ok(Outcome::Queued) => Reply::Queued,
        Ok(Outcome::Taken) => Reply::Null,
        Err(Refusal::Grace(_)) => Reply::Grace,
        Err(Refusal::NoReentry(why)) => Reply::NoReentry(why),
        Err(Refusal::Deadlock) => Reply::Deadlock,
        Err(Refusal::Cycle(cycle)) => Reply::Cycle(cycle),
        Err(Refusal::MaxPlaces | Refusal::MaxWaiters) => Reply::TooMany,
        Err(refusal) => panic!("{refusal:?}"),
    }
}
