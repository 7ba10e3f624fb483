//! The commands that clients send to the small server.

use super::turn::number;
use super::{Blocked, Conn, Lock, Reply, Rules, Server, at, time};
use crate::encoding::Effect;
use crate::lock::{AcquireRequest, Deadline, Got, Millis, Owner, Value};
use crate::waiting::{self, Caller, Host, Outcome};
use crate::waiting::{ExtendRequest, GivenUp, Refusal, ReleaseRequest, RequestId, WaitOptions};

impl Server {
    pub(crate) fn acquire_on(
        &mut self,
        rules: Rules,
        now: Millis,
        conn: Conn,
        lock: Lock,
        ask: &AcquireRequest<'static>,
        wait: &WaitOptions,
    ) -> Reply {
        match self.acquire(rules, now, conn, (&[lock], false), ask, wait) {
            Reply::All(all, until) => Reply::granted(all[0], until),
            reply => reply,
        }
    }

    pub(crate) fn acquire_all(
        &mut self,
        rules: Rules,
        now: Millis,
        conn: Conn,
        locks: &[Lock],
        ask: &AcquireRequest<'static>,
        wait: &WaitOptions,
    ) -> Reply {
        self.acquire(rules, now, conn, (locks, true), ask, wait)
    }

    fn acquire(
        &mut self,
        rules: Rules,
        now: Millis,
        conn: Conn,
        (locks, several): (&[Lock], bool),
        ask: &AcquireRequest<'static>,
        wait: &WaitOptions,
    ) -> Reply {
        let caller = self.caller(rules, conn);
        if let Some(reply) = self.acquire_free(rules, now, (locks, several), ask, wait) {
            return reply;
        }
        let (outcome, got) = self.turn(rules, now).step(locks, |env, sites| {
            let outcome = waiting::acquire(env, sites, several, &caller, ask, wait);
            (outcome, sites.iter().filter_map(|site| site.got).collect::<Vec<Got>>())
        });
        match outcome {
            Ok(Outcome::Granted(until)) => Reply::All(got, until),
            Ok(Outcome::Waits(request)) => self.block(conn, request),
            Ok(Outcome::Queued) => Reply::Queued,
            Ok(Outcome::Taken) => Reply::Null,
            Ok(Outcome::Detect) => {
                let (ids, is_place) = (locks.iter().map(|lock| at(*lock).to_id()), wait.channel.is_some());
                let mut turn = self.turn(rules, now);
                let cycle =
                    waiting::cycle(&mut turn, &caller, ids.collect(), several, ask, is_place, time(now));
                let wait = WaitOptions { detect: false, ..wait.clone() };
                cycle.map_or_else(
                    || self.acquire(rules, now, conn, (locks, several), ask, &wait),
                    Reply::Cycle,
                )
            }
            Err(Refusal::Grace(_)) => Reply::Grace,
            Err(Refusal::NoReentry(why)) => Reply::NoReentry(why),
            Err(Refusal::Deadlock) => Reply::Deadlock,
            Err(Refusal::MaxWaiters | Refusal::MaxPlaces) => Reply::TooMany,
            Err(refusal) => panic!("{refusal:?}"),
        }
    }

    fn acquire_free(
        &mut self,
        rules: Rules,
        now: Millis,
        (locks, several): (&[Lock], bool),
        ask: &AcquireRequest<'static>,
        wait: &WaitOptions,
    ) -> Option<Reply> {
        let [lock] = *locks else { return None };
        let mut turn = self.turn(rules, now);
        turn.expire(lock);
        let (limits, grace) = (turn.limits(), turn.grace_left());
        if several || grace.grants > 0 || self.locks[lock].is_some() || self.table.get(at(lock)).is_some() {
            return None;
        }
        let now = time(now);
        let fences = &mut self.fences;
        let granted = waiting::acquire_free(ask, wait, || limits, || fences.next(now.micros), now);
        let (grant, got, until) = granted?;
        self.effects.push((lock, Effect::Alone(grant.clone(), until)));
        self.locks[lock] = Some((Value::One(grant), until));
        Some(Reply::All(vec![got], until))
    }

    fn caller(&self, rules: Rules, conn: Conn) -> Caller {
        let (id, may_block) = (self.conns[usize::from(conn)].id, true);
        let Rules { most_waiters, most_places, claim, .. } = rules;
        Caller { connection: id, may_block, most_waiters, most_places, claim }
    }

    fn block(&mut self, conn: Conn, request: RequestId) -> Reply {
        self.table.blocked(request, request);
        self.blocked.insert(request, Blocked::new(conn, self.conns[usize::from(conn)].id));
        Reply::Waits
    }

    pub(crate) fn leave_on(&mut self, rules: Rules, now: Millis, lock: Lock, owner: &Owner<'_>) -> bool {
        let GivenUp { any, others } =
            self.turn(rules, now).step_on(lock, |env, site| waiting::leave(env, site, owner));
        others.iter().for_each(|id| self.turn(rules, now).step_on(number(id), waiting::settle));
        any
    }

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

    pub(crate) fn release_each(
        &mut self,
        rules: Rules,
        now: Millis,
        locks: &[Lock],
        given: ReleaseRequest<'_>,
    ) -> Vec<Option<u32>> {
        self.turn(rules, now).step(locks, |env, sites| {
            sites.iter_mut().map(|site| waiting::release(env, site, given).ok()).collect()
        })
    }

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

    pub(crate) fn release_on(
        &mut self,
        rules: Rules,
        now: Millis,
        lock: Lock,
        given: ReleaseRequest<'_>,
    ) -> Option<u32> {
        self.turn(rules, now).expire(lock);
        let frees = waiting::frees(self.locks[lock].as_ref().map(|(value, _)| value), given);
        if frees != Ok(false) && self.table.get(at(lock)).is_none() {
            let freed = frees.is_ok().then(|| self.locks[lock] = None);
            self.effects.extend(freed.map(|()| (lock, Effect::Free)));
            return freed.map(|()| 0);
        }
        self.turn(rules, now).step_on(lock, |env, site| waiting::release(env, site, given)).ok()
    }

    pub(crate) fn extend(
        &mut self,
        rules: Rules,
        now: Millis,
        owner: &Owner<'_>,
        fence: Option<u64>,
        lease: Millis,
    ) -> Option<Deadline> {
        let longer = ExtendRequest { owner, fence, lease, confirm: None };
        match self.extend_each(rules, now, 0, &[0], &longer) {
            Reply::Extended(until) => Some(until),
            _ => None,
        }
    }

    pub(crate) fn extend_each(
        &mut self,
        rules: Rules,
        now: Millis,
        conn: Conn,
        locks: &[Lock],
        longer: &ExtendRequest<'_>,
    ) -> Reply {
        let (several, caller) = (locks.len() > 1, self.caller(rules, conn));
        let extended = self
            .turn(rules, now)
            .step(locks, |env, sites| waiting::extend(env, sites, several, &caller, longer));
        match extended {
            Ok(Outcome::Granted(until)) => Reply::Extended(until),
            Ok(Outcome::Waits(request)) => self.block(conn, request),
            Ok(_) => Reply::Null,
            Err(Refusal::GraceOfLeases(_)) => Reply::Grace,
            Err(_) => Reply::NotHeld,
        }
    }

    pub(crate) fn break_on(&mut self, rules: Rules, now: Millis, lock: Lock, fence: Option<u64>) -> usize {
        self.turn(rules, now).step_on(lock, |env, site| waiting::break_(env, site, fence)).len()
    }
}
