//! Several locks at once: all of them or none, in one step.

use super::access::{Caller, Environment, LockAccess, LockEvent, LocksAccess, Refusal};
use super::acquire::keep;
use super::confirm::take_confirmed;
use super::hand_over::{enter_again, give, grant_heads, is_grace, may_be_given, reenter};
use super::join::{self, Outcome, WaitOptions};
use super::leases::lease_moved;
use super::release;
use super::settle::settle_each;
use super::table::{Answer, RequestId};
use super::verdict::{Verdict, judge, judge_unsettled, new_fence, take};
use crate::lock::{AcquireRequest, Deadline, Got, Now, Owner};

/// The grants of the locks, in order, and the end of the lease that ends first.
pub(crate) type All = (Vec<Got>, Deadline);

/// Takes all these locks, or waits for all of them in one place of each queue. New grants have one fence.
pub(crate) fn acquire_all<B: LocksAccess>(
    locks: &mut B,
    caller: &mut impl Caller<B::One>,
    ask: &AcquireRequest<'_>,
    wait: &WaitOptions,
    now: Now,
) -> Result<Outcome<All>, Refusal> {
    join::may_keep(locks, caller, ask)?;
    let unsettled = settle_each(locks, now);
    let mut verdicts = Vec::with_capacity(locks.count());
    let mut conflicts = Vec::new();
    for number in 0..locks.count() {
        let Some(lock) = locks.lock(number) else { break };
        let is_settled = unsettled.binary_search(&number).is_err();
        let verdict =
            if is_settled { judge(lock, ask, None, now)? } else { judge_unsettled(lock, ask, now)? };
        match verdict {
            Verdict::Not(conflict) => conflicts.push((number, conflict)),
            verdict => verdicts.push(verdict),
        }
    }
    if !conflicts.is_empty() {
        return join::wait(locks, caller, ask, wait, &conflicts, now);
    }
    if wait.confirm.is_some() {
        return take_confirmed(locks, caller, ask, wait, verdicts, now);
    }
    let fence = new_fence(locks, &verdicts, now)?;
    let (mut all, mut first_end) = (Vec::with_capacity(verdicts.len()), Deadline::Never);
    for (number, verdict) in verdicts.into_iter().enumerate() {
        let Some(lock) = locks.lock(number) else { break };
        let (got, until) = take(lock, ask, verdict, fence, now)?;
        keep(lock, caller.id(), ask, wait, got.fence, until, now);
        first_end = first_end.min(until);
        all.push(got);
    }
    Ok(Outcome::Granted((all, first_end)))
}

/// Settles all locks that a waiter waits for, and gives it them all where that can be. Else one is noted that keeps it waiting.
pub(crate) fn settle_together<B: LocksAccess>(locks: &mut B, request: RequestId, now: Now) {
    let Some(first) = locks.lock(0) else { return };
    let (aside, was_due) = first.table(|table| table.set_tries_aside(request, now.millis()));
    let unsettled = settle_each(locks, now).into_iter().next();
    let changed =
        was_due || (0..locks.count()).any(|number| locks.lock(number).is_some_and(|lock| lock.changed()));
    let Some(first) = locks.lock(0) else { return };
    first.table(|table| table.timers.take_tries_up(aside, changed));
    let Some(ask) = first.table(|table| table.take_try(request)) else { return };
    if first.table(|table| table.is_gone(request)) {
        first.table(|table| table.give_up(request));
        return;
    }
    if let Some(number) = unsettled {
        // It is tried again when that has been settled.
        first.table(|table| table.stuck_at(request, number));
        return;
    }
    let mut verdicts = Vec::with_capacity(locks.count());
    for number in 0..locks.count() {
        let Some(lock) = locks.lock(number) else { return };
        match judge(lock, &ask, Some(request), now) {
            Ok(Verdict::Not(conflict)) => {
                lock.table(|table| table.stuck_at(request, number));
                if let Some(fence) = conflict.upgrade {
                    if lock.entry(|entry| entry.upgrader()).is_some_and(|other| other != fence) {
                        lock.note(LockEvent::Deadlocked);
                        lock.table(|table| table.answer(request, Answer::Deadlock));
                        return;
                    }
                    lock.change(|entry| entry.upgrade_first(fence, request));
                }
                // It has its timer.
                is_grace(lock, now);
                return;
            }
            Ok(Verdict::Again { .. }) if !may_be_given(lock, request) => {
                lock.table(|table| table.stuck_at(request, number));
                return;
            }
            Ok(verdict) => verdicts.push(verdict),
            Err(why) => {
                lock.table(|table| table.answer(request, Answer::NoReentry(why)));
                return;
            }
        }
    }
    grant_all(locks, request, &ask, verdicts, now);
}

fn grant_all<B: LocksAccess>(
    locks: &mut B,
    request: RequestId,
    ask: &AcquireRequest<'_>,
    verdicts: Vec<Verdict>,
    now: Now,
) {
    // Once the greatest has been given: what is held can still be given back.
    let Ok(fence) = new_fence(locks, &verdicts, now) else { return };
    let (mut all, mut ends) = (Vec::with_capacity(verdicts.len()), Vec::with_capacity(verdicts.len()));
    let mut again = Vec::new();
    for (number, verdict) in verdicts.into_iter().enumerate() {
        let Some(lock) = locks.lock(number) else { return };
        let (got, until) = match (verdict, fence) {
            (Verdict::New { until, alone }, Some(fence)) => {
                let got = give(lock, ask, fence, until, alone, now);
                lock.note(LockEvent::HandedOver);
                (got, until)
            }
            (Verdict::Again { fence, holds, room, until, upgraded }, _) => {
                again.push(number);
                (enter_again(lock, ask, fence, holds, room, until, upgraded), until)
            }
            _ => return,
        };
        all.push(got);
        ends.push(until);
    }
    let first_end = ends.iter().copied().min().unwrap_or(Deadline::Never);
    if let Some(lock) = locks.lock(0)
        && let Some(waited) = lock.table(|table| table.grant(request, &all, first_end, now.micros))
    {
        lock.note(LockEvent::Waited(waited));
    }
    let owner = ask.owner.borrowed().into_owned();
    for (number, (got, until)) in all.iter().zip(ends).enumerate() {
        let Some(lock) = locks.lock(number) else { return };
        if ask.once && again.contains(&number) {
            lock.change(|entry| entry.share_hold_with(got.fence, request));
        }
        lease_moved(lock, got.fence, until, now);
        reenter(lock, &owner, now);
        if !ask.room.is_exclusive() {
            grant_heads(lock, false, now);
        }
    }
}

/// Gives back one hold of each of these locks, or all: the holds left; none where it is not held.
pub(crate) fn release_all<B: LocksAccess>(
    locks: &mut B,
    owner: &Owner<'_>,
    fence: Option<u64>,
    all: bool,
    now: impl Fn() -> Now,
) -> Vec<Option<u32>> {
    let mut left = Vec::with_capacity(locks.count());
    for number in 0..locks.count() {
        let Some(lock) = locks.lock(number) else { break };
        left.push(release::release(lock, owner, fence, all, &now).ok());
    }
    left
}
