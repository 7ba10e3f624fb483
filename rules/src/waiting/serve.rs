//! Serves queues: grants locks to waiters, in order, as far as they fit.
//!
//! A waiter that can't have its locks yet (`judge` says why) keeps those behind it waiting, too. Some are served before it:
//!
//! - waiters whose owner holds the lock re-enter, wherever they are in the queue, until `PASSED` of them could not (`reenter`);
//! - waiters for an upgrade go ahead of the queue (`LockState::head`).
//!
//! A waiter that can never have its locks, or a place whose connection has closed (`is_closed_place`), leaves the queue. A waiter for several
//! locks waits until `try_waiter` can grant it all of them.

use super::budget::{CHANGE, LOOKUP};
use super::grants::{LockEvent, Verdict};
use super::judge::grant_all;
use super::lock_state::UntoldHold;
use super::message::Channel;
use super::queue::RequestId;
use super::step::{Env, Site, step_on_all};
use super::table::{After, Table};
use super::waiter::{Answer, RequestedLocks, Stage};
use crate::lock::{AcquireRequest, Deadline, Fence, Now, Owner, Value};

/// Several clients may wait under the name of an owner that holds the lock. A step tries to let them re-enter, in order, and stops after
/// this many that can't yet. Those behind them wait until one of them is served, or until they are at the head of the queue.
const PASSED: usize = 2;

/// While an owner's places have this many locks to claim with one grant, no further place gets a hold of it. Otherwise, one claim could be
/// any amount of work.
const MOST_UNCLAIMED: usize = 32;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Served {
    Granted,
    Answered,
    Waits,
}

/// Tries to grant a waiter all its locks.
pub fn try_waiter<C: Copy>(env: &mut Env<'_, C>, sites: &mut [Site<'_>], request: RequestId) {
    let (mut aside, known) = (std::mem::take(&mut env.table.tries), env.table.waiters.len());
    let changed = step_on_all(env, sites, |env, sites| {
        sites.iter_mut().for_each(|site| site.serve(env));
        let ask = env.table.waiters.get(&request).filter(|waiter| waiter.stage == Stage::Queued);
        let Some(ask) = ask.map(|waiter| waiter.ask.clone()) else {
            return sites.iter().any(Site::has_changed);
        };
        let mut waits = false;
        if env.table.is_closed_place(request) {
            env.table.after.push((request, After::GivenUp));
        } else {
            let served = serve_at(env, sites, request, &ask);
            waits = served == Served::Waits;
            if served == Served::Granted {
                sites.iter_mut().for_each(|site| site.reenter(env, &ask.owner));
            }
        }
        // If it has left its queues, others may be next.
        !waits || sites.iter().any(Site::has_changed)
    });
    if env.table.waiters.len() < known {
        // Places whose connections have closed have been given up.
        aside.retain(|request| env.table.waiters.contains_key(request));
    }
    let since = std::mem::replace(&mut env.table.tries, aside);
    if changed {
        // If nothing has changed, the others have already been tried with the locks as they are.
        env.table.tries.extend(since);
    }
}

/// Tries to grant a waiter its locks, which are those of all `sites`. A waiter that can never have them gets an answer that says so.
fn serve_at<C: Copy>(
    env: &mut Env<'_, C>,
    sites: &mut [Site<'_>],
    request: RequestId,
    ask: &AcquireRequest<'static>,
) -> Served {
    for number in 0..sites.len() {
        let Some(site) = sites.get_mut(number) else { break };
        // The lock counts as taken while a grant is still to be ended.
        let is_known = site.is_settled || site.grants.value.is_none();
        let verdict = if is_known { site.judge(env, ask, Some(request)) } else { Ok(Verdict::TAKEN) };
        let reentered = verdict.as_ref().ok().and_then(Verdict::reentered);
        if reentered.is_some_and(|fence| !site.may_reenter(env, request, fence)) {
            env.table.stuck_at(request, number);
            return Served::Waits;
        }
        let answer = match verdict {
            Ok(Verdict::Taken { upgrade, .. }) => {
                if upgrade.is_none_or(|fence| !site.lock.is_upgraded_by_another(fence)) {
                    upgrade.into_iter().for_each(|fence| site.lock.upgrade_first(fence, request));
                    env.table.stuck_at(request, number);
                    return Served::Waits;
                }
                site.note(LockEvent::Deadlocked);
                Answer::Deadlock
            }
            Ok(verdict) => {
                site.verdict = verdict;
                continue;
            }
            Err(why) => Answer::NoReentry(why),
        };
        sites.iter_mut().for_each(|site| site.lock.leave(request, &ask.owner));
        env.table.tries.remove(&request);
        env.table.set_stage(request, Stage::Answered(answer));
        return Served::Answered;
    }
    let Some(until) = grant_all(env, sites, ask, LockEvent::HandedOver) else { return Served::Waits };
    sites.iter_mut().for_each(|site| site.lock.leave(request, &ask.owner));
    let place = env.table.answer_granted(request, sites, until, env.now);
    if let (Some(site), Some(waiter)) = (sites.first_mut(), env.table.waiters.get(&request)) {
        site.note(LockEvent::Waited(env.now.micros.saturating_sub(waiter.since) / 1000));
    }
    sites.iter_mut().for_each(|site| site.note_untold(request, ask, place.is_some(), place.as_ref()));
    let is_new = sites.iter().any(|site| site.verdict.is_new());
    if is_new { Served::Granted } else { Served::Answered }
}

impl Site<'_> {
    /// Grants the lock to the waiters at the head of the queue, as far as they fit.
    pub(super) fn serve<C: Copy>(&mut self, env: &mut Env<'_, C>) {
        if self.lock.queue.is_empty() {
            return;
        }
        if !self.is_settled && self.grants.value.is_some() {
            return;
        }
        if let Some(Value::One(grant)) = &self.grants.value {
            let owner = grant.owner();
            if self.lock.queue.may_have(&owner) {
                let owner = owner.into_owned();
                self.reenter(env, &owner);
            }
        } else if self.all_may_reenter && !env.table.budget.pay(0) {
            self.again = true;
        } else if std::mem::take(&mut self.all_may_reenter) {
            let owners: Vec<_> = self.grants.all().map(|held| held.grant.owner().into_owned()).collect();
            env.table.budget.pay(LOOKUP.saturating_mul(owners.len() as u32));
            owners.iter().for_each(|owner| self.reenter(env, owner));
        }
        loop {
            let head = self.lock.head();
            let Some((served, owner, is_alone)) = head.and_then(|head| self.serve_one(env, head)) else {
                return;
            };
            if served != Served::Answered {
                self.reenter(env, &owner);
            }
            if served == Served::Waits || served == Served::Granted && is_alone {
                return;
            }
            if !env.table.budget.pay(CHANGE) {
                self.again = true;
                return;
            }
        }
    }

    /// Notes that a client has a hold of which it may not know.
    pub(super) fn note_untold(
        &mut self,
        request: RequestId,
        ask: &AcquireRequest<'_>,
        to_claim: bool,
        channel: Option<&Channel>,
    ) {
        let Some(fence) = self.got.map(|got| got.fence) else { return };
        let revocable = self.verdict.is_new() || !ask.once;
        let hold = UntoldHold { request, revocable, binds: ask.session, to_claim };
        self.lock.change_or_add(fence, |record| record.pending.push(hold));
        if let Some(channel) = channel {
            self.listen(fence, ask.owner.borrowed().into_owned(), channel, false);
        }
    }

    /// Lets the waiters of an owner that holds the lock re-enter, wherever they are in the queue.
    fn reenter<C: Copy>(&mut self, env: &mut Env<'_, C>, owner: &Owner<'static>) {
        let (mut seen, mut passed) = (None, 0);
        while passed < PASSED && self.grants.grant_of(owner).is_some() {
            let Some(request) = self.lock.queue.next_of(owner, seen) else { return };
            seen = Some(request);
            let served = self.serve_one(env, request);
            if served.is_some_and(|(served, ..)| served == Served::Waits) {
                passed += 1;
                env.table.budget.pay(LOOKUP);
            } else if !env.table.budget.pay(CHANGE) {
                self.again = true;
                return;
            }
        }
    }

    /// Whether a waiter may re-enter this grant now. A place may have to wait until its owner has claimed others.
    fn may_reenter<C: Copy>(&mut self, env: &Env<'_, C>, request: RequestId, fence: Fence) -> bool {
        let waiter = |request: RequestId| env.table.waiters.get(&request);
        let record =
            self.lock.record(fence).filter(|_| waiter(request).is_some_and(|its| its.channel.is_some()));
        let unclaimed = record.into_iter().flat_map(|record| &record.pending).filter(|hold| hold.to_claim);
        let locks = unclaimed.filter_map(|hold| waiter(hold.request)).map(|waiter| waiter.locks.all().len());
        let is_full = locks.sum::<usize>() >= MOST_UNCLAIMED;
        self.lock.put_off |= is_full;
        !is_full
    }

    /// Serves a waiter. Returns what happened, the waiter's owner, and whether the waiter asks to be the only holder.
    fn serve_one<C: Copy>(
        &mut self,
        env: &mut Env<'_, C>,
        request: RequestId,
    ) -> Option<(Served, Owner<'static>, bool)> {
        let waiter = env.table.waiters.get(&request)?;
        let (ask, locks) = (waiter.ask.clone(), waiter.locks.all().len());
        let served = if env.table.is_closed_place(request) {
            if !env.table.budget.pay(0) {
                self.again = true;
                return None;
            }
            env.table.budget.pay(LOOKUP.saturating_mul(locks as u32));
            self.lock.leave(request, &ask.owner);
            env.table.after.push((request, After::GivenUp));
            Served::Answered
        } else if locks > 1 {
            // A step on one lock can't serve this waiter. A timer tries to, if this lock is the one that keeps the waiter waiting.
            let stuck = waiter.locks.all().get(waiter.locks.stuck());
            if stuck.is_some_and(|lock| lock.id.is(self.at)) {
                env.table.tries.insert(request);
            }
            Served::Waits
        } else {
            serve_at(env, std::slice::from_mut(self), request, &ask)
        };
        Some((served, ask.owner, ask.room.is_exclusive()))
    }
}

impl<C: Copy> Table<C> {
    /// Notes which lock keeps the waiter waiting.
    fn stuck_at(&mut self, request: RequestId, number: usize) {
        if let Some(RequestedLocks::Several { stuck, .. }) =
            self.waiters.get_mut(&request).map(|waiter| &mut waiter.locks)
        {
            *stuck = number;
        }
    }

    /// Answers a waiter with its grants. If the waiter has a place, and so has to claim them, returns its channel.
    fn answer_granted(
        &mut self,
        request: RequestId,
        sites: &[Site<'_>],
        until: Deadline,
        now: Now,
    ) -> Option<Channel> {
        self.tries.remove(&request);
        let (waiter, answer) = (self.waiters.get_mut(&request)?, Answer::Granted { until });
        for (lock, site) in waiter.locks.all_mut().iter_mut().zip(sites) {
            lock.got = site.got;
        }
        if let Some(confirm) = waiter.confirm {
            self.set_stage(request, Stage::Unconfirmed(answer));
            self.end_by(request, Some(confirm.too_late(until, now.millis())));
            return None;
        }
        self.set_stage(request, Stage::Answered(answer));
        let waiter = self.waiters.get_mut(&request)?;
        let channel = Channel::clone(waiter.channel.as_deref()?);
        if let Deadline::At(_) = until {
            waiter.ask.lease = waiter.ask.lease.min(until.left(now.start));
        }
        // Usually, the grant ends first, because its lease is 3 ms shorter.
        let time_up = now.millis().saturating_add(waiter.ask.lease).saturating_add(3);
        self.end_by(request, Some(time_up));
        Some(channel)
    }
}
