//! Hands a lock over to the next waiter, or to several waiters that fit together.

use super::access::{Environment, LockAccess, LockEvent};
use super::budget::{CHANGE, LOOKUP};
use super::grace;
use super::grant::grant_to_waiter;
use super::lock_set::LocksAccess;
use super::table::{Answer, LockRef, MessageKind, RequestId, WaitTable};
use super::verdict::{Conflict, Decision, Standing, Verdict, judge};
use crate::lock::{AcquireRequest, Fence, Now, Owner, ReentryError};

/// Several clients may wait under the name of an owner that already holds the lock. When these waiters re-enter one after another, one step
/// passes over at most this many that can't re-enter yet. The waiters behind them wait until one of the waiters that were passed over is
/// served, or until they are at the head of the queue.
const PASSED: usize = 2;

/// Ends the only grant, for the reason `why`. In the same step, grants the lock to the next waiters that now fit. (`end` and `grant_heads`
/// together do the same, with an effect and a change of the key more.)
#[inline(always)]
pub(super) fn hand_over<S: LockAccess>(
    lock: &mut S,
    fence: Fence,
    why: LockEvent,
    now: impl FnOnce() -> Now,
) {
    lock.note(why);
    if !lock.idle() {
        forget(lock, fence, why);
        if grant_heads(lock, true, now()) {
            return;
        }
    }
    lock.free();
}

/// Ends these grants, which are all grants of the lock or some of them, and serves no waiters. The caller has to grant the lock to the next
/// waiters that now fit, when the step has ended all that it ends: it must not end a grant that it has made.
pub(super) fn end<S: LockAccess>(lock: &mut S, fences: &[Fence], why: LockEvent) {
    let is_all = lock.value().is_some_and(|value| value.count() == fences.len());
    for fence in fences {
        match is_all {
            true => lock.note(why),
            false => lock.end(*fence, why),
        }
        if !lock.idle() {
            forget(lock, *fence, why);
        }
    }
    if is_all {
        lock.free();
    }
}

/// Drops everything that the table knows about a grant that has ended.
fn forget<S: LockAccess>(lock: &mut S, fence: Fence, why: LockEvent) {
    // An owner gets no message about the end of a grant that the owner released itself, or did not know of.
    let lost = !matches!(why, LockEvent::Released | LockEvent::TakenBack);
    lock.here(|table, at| table.end_grant(at, fence, lost.then_some(MessageKind::Lost)));
}

/// The result of serving a waiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Served {
    /// The waiter has all its locks, at least one by a new grant.
    Granted,
    /// The waiter has re-entered grants of its owner, or can never have its locks. In both cases, it gets an answer.
    Answered,
    Waits,
}

/// Serves a waiter: grants it all its locks, or lets it wait, or has it told that it can never have them.
pub(super) fn serve<B: LocksAccess>(
    locks: &mut B,
    request: RequestId,
    ask: &AcquireRequest<'_>,
    standing: Standing,
    now: Now,
) -> Served {
    // A waiter for several locks can be served only by a step that has opened the keys of all its locks. Any other step leaves this waiter
    // to a timer.
    if !B::SEVERAL && locks.first().here(|table, at| table.waiters.defer_to_try(at, request)) {
        return Served::Waits;
    }
    let mut number = 0;
    let judged = locks.try_each(|lock| {
        let decision = may_have(lock, request, ask, standing, now)?;
        number += 1;
        Ok(decision)
    });
    let granted = match judged {
        Ok(decisions) => grant_to_waiter(locks, request, ask, &decisions, now),
        Err(Served::Waits) => {
            if B::SEVERAL {
                locks.first().table(|table| table.waits().stuck_at(request, number));
            }
            return Served::Waits;
        }
        Err(served) => return served,
    };
    match granted {
        None => Served::Waits,
        Some(granted) if B::all(&granted).iter().any(|granted| granted.is_new) => Served::Granted,
        Some(_) => Served::Answered,
    }
}

/// Decides whether, and how, a waiter gets this lock now. The error says that the waiter still waits, or that it gets an answer because it
/// can never have the lock.
#[inline(always)]
fn may_have<S: LockAccess>(
    lock: &mut S,
    request: RequestId,
    ask: &AcquireRequest<'_>,
    standing: Standing,
    now: Now,
) -> Result<Decision, Served> {
    let verdict = match judge(lock, ask, standing, now) {
        Ok(Ok(decision)) if decision.kind.earlier().is_none() => return Ok(decision),
        Ok(Err(Conflict { upgrade: None, grace, .. })) => {
            if grace.is_some() {
                look_after_grace(lock, now);
            }
            return Err(Served::Waits);
        }
        verdict => verdict,
    };
    may_have_again(lock, request, verdict, now)
}

/// Acts on the verdict about a waiter whose owner already holds the lock. This function is not inlined, so that a plain handover does not
/// pay for it.
#[inline(never)]
fn may_have_again<S: LockAccess>(
    lock: &mut S,
    request: RequestId,
    verdict: Result<Verdict, ReentryError>,
    now: Now,
) -> Result<Decision, Served> {
    let most = lock.most_unclaimed();
    let may_be_given = lock.here(|table, at| {
        !table.waiters.is_place(request)
            || table.locks.change(at, |entry| entry.may_be_given(most)).unwrap_or(true)
    });
    if !may_be_given {
        return Err(Served::Waits);
    }
    let answer = match verdict {
        Ok(Ok(decision)) => return Ok(decision),
        Ok(Err(Conflict { upgrade, grace, .. })) => {
            let Some(fence) = upgrade else {
                debug_assert!(false, "its owner holds the lock");
                return Err(Served::Waits);
            };
            if lock.entry(|entry| entry.upgrader()).is_none_or(|other| other == fence) {
                lock.change(|entry| entry.upgrade_first(fence, request));
                if grace.is_some() {
                    look_after_grace(lock, now);
                }
                return Err(Served::Waits);
            }
            lock.note(LockEvent::Deadlocked);
            Answer::Deadlock
        }
        Err(why) => Answer::NoReentry(why),
    };
    lock.table(|table| table.answer(request, answer));
    Err(Served::Answered)
}

/// During a grace, sets a timer to look at the lock later, because the lock's waiters have to wait although there is room.
fn look_after_grace<S: LockAccess>(lock: &mut S, now: Now) {
    let grace = lock.grace().grants;
    if grace > 0 {
        let until = now.millis().saturating_add(grace.min(grace::LOOK_AGAIN));
        lock.here(|table, at| table.locks.look_by(at, until));
    }
}

/// Grants the lock to the waiters at the head of its queue, as far as they fit. Returns whether anybody got a grant. `over` says that the
/// grant in the key has ended, and is to be replaced. The first waiter gets the lock whatever the budget is, because a lock with waiters
/// must not stay free.
pub(super) fn grant_heads<S: LockAccess>(lock: &mut S, over: bool, now: Now) -> bool {
    let mut granted = false;
    check_upgrade(lock);
    loop {
        let next = |table: &mut WaitTable<S::Client>, at: LockRef<'_>| {
            let (request, ask) = table.head(at)?;
            Some((request, ask, table.is_gone(request)))
        };
        let Some((request, ask, is_gone)) = lock.here(next) else { return granted };
        if is_gone {
            if !lock.pay(0) {
                break;
            }
            drop_closed(lock, request);
            continue;
        }
        // With `over`, the grant in the key has ended. It does not count, but stays there until a waiter's grant replaces it.
        let is_over = over && !granted;
        match serve(lock, request, &ask, Standing::First { over: is_over }, now) {
            Served::Waits => {
                // The waiters behind this waiter have to wait, too, except those with the same owner: if this owner already holds the lock,
                // they may re-enter.
                if !is_over {
                    reenter(lock, &ask.owner, now);
                }
                return granted;
            }
            Served::Answered => {}
            Served::Granted => {
                granted = true;
                reenter(lock, &ask.owner, now);
                if ask.room.is_exclusive() {
                    lock.pay(CHANGE);
                    return true;
                }
            }
        }
        if !lock.pay(CHANGE) {
            break;
        }
    }
    lock.here(|table, at| {
        if table.locks.lock(at).waiters() > 0 {
            table.locks.look_by(at, 0);
        }
    });
    granted
}

/// Waiters for an upgrade (a re-entry that allows fewer other holders) go ahead of the queue. If the grant that they want to upgrade has
/// ended, puts them back in order of arrival.
pub(super) fn check_upgrade<S: LockAccess>(lock: &mut S) {
    if let Some(fence) = lock.entry(|entry| entry.upgrader())
        && !lock.has_fence(fence)
    {
        lock.change(|entry| entry.end_upgrade());
    }
}

/// Lets the waiters of an owner that holds the lock re-enter at once, wherever they are in the queue. If a waiter asks for an upgrade (a
/// re-entry that allows fewer other holders) and can't have it yet, puts this waiter ahead of the queue. If there are many waiters, the
/// next step serves the rest.
pub(super) fn reenter<S: LockAccess>(lock: &mut S, owner: &Owner<'static>, now: Now) {
    let (mut seen, mut passed) = (None, 0);
    loop {
        let Some((request, ask)) = lock.here(|table, at| table.next_of(at, owner, seen)) else {
            return;
        };
        seen = Some(request);
        if lock.value().is_none_or(|value| value.grant_of(owner).is_none()) {
            return;
        }
        if lock.table(|table| table.is_gone(request)) {
            drop_closed(lock, request);
        } else if passed == PASSED {
            return;
        } else if serve(lock, request, &ask, Standing::Queued(request), now) == Served::Waits {
            passed += 1;
            lock.spend(LOOKUP);
            continue;
        } else {
            lock.pay(CHANGE);
            if passed > 0 {
                // The waiter that was served may have given the owner's grant its first slot (the number of a permit). Then a waiter that
                // was passed over and asks for another slot can never be served, and has to be told so. So this loop starts again with the
                // owner's first waiter.
                (seen, passed) = (None, 0);
            }
        }
        if !lock.pay(0) {
            break;
        }
    }
    if lock.here(|table, at| table.next_of(at, owner, seen)).is_some() {
        lock.here(|table, at| table.locks.recheck_by(at, 0));
    }
}

/// Gives up a place, in the queues of all its locks, because the connection of the place has closed.
fn drop_closed<S: LockAccess>(lock: &mut S, request: RequestId) {
    let locks = lock.table(|table| table.give_up(request));
    lock.pay(LOOKUP.saturating_mul(locks));
}
