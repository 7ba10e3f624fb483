//! An acquire of one lock: granted, re-entered, refused, or put into the queue.

use super::access::{Caller, LockAccess, Refusal, SingleLock};
use super::confirm::take_confirmed;
use super::join::{self, Outcome, WaitOptions};
use super::leases::lease_moved;
use super::sessions;
use super::settle::settle;
use super::verdict::{Verdict, judge, judge_unsettled, take};
use crate::lock::{AcquireRequest, Deadline, Fence, Got, Now};

/// Takes a lock, or waits for it: what is granted, and the end of the lease.
pub(crate) fn acquire<S: LockAccess>(
    lock: &mut S,
    caller: &mut impl Caller<S>,
    ask: &AcquireRequest<'_>,
    wait: &WaitOptions,
    now: Now,
) -> Result<Outcome<(Got, Deadline)>, Refusal> {
    if ask.session {
        join::may_keep(&mut SingleLock(lock), caller, ask)?;
    }
    if wait.confirm.is_some() {
        return acquire_confirmed(lock, caller, ask, wait, now);
    }
    if !settle(lock, now) {
        return acquire_unsettled(lock, caller, ask, wait, now);
    }
    let verdict = judge(lock, ask, None, now)?;
    take_or_wait(lock, caller, ask, wait, verdict, now)
}

/// Acquires a lock of which not all could be settled. A function of its own, so that other acquires do not pay for it.
#[cold]
#[inline(never)]
fn acquire_unsettled<S: LockAccess>(
    lock: &mut S,
    caller: &mut impl Caller<S>,
    ask: &AcquireRequest<'_>,
    wait: &WaitOptions,
    now: Now,
) -> Result<Outcome<(Got, Deadline)>, Refusal> {
    let verdict = judge_unsettled(lock, ask, now)?;
    take_or_wait(lock, caller, ask, wait, verdict, now)
}

#[inline(always)]
fn take_or_wait<S: LockAccess>(
    lock: &mut S,
    caller: &mut impl Caller<S>,
    ask: &AcquireRequest<'_>,
    wait: &WaitOptions,
    verdict: Verdict,
    now: Now,
) -> Result<Outcome<(Got, Deadline)>, Refusal> {
    match verdict {
        Verdict::Not(conflict) => join::wait(&mut SingleLock(lock), caller, ask, wait, &[(0, conflict)], now),
        verdict => {
            let (got, until) = take(lock, ask, verdict, None, now)?;
            keep(lock, caller.id(), ask, wait, got.fence, until, now);
            Ok(Outcome::Granted((got, until)))
        }
    }
}

/// Acquires a lock with `SYNC`. A function of its own, so that an acquire without `SYNC` does not pay for it.
#[cold]
#[inline(never)]
fn acquire_confirmed<S: LockAccess, G>(
    lock: &mut S,
    caller: &mut impl Caller<S>,
    ask: &AcquireRequest<'_>,
    wait: &WaitOptions,
    now: Now,
) -> Result<Outcome<G>, Refusal> {
    let is_settled = settle(lock, now);
    let verdict = if is_settled { judge(lock, ask, None, now)? } else { judge_unsettled(lock, ask, now)? };
    match verdict {
        Verdict::Not(conflict) => join::wait(&mut SingleLock(lock), caller, ask, wait, &[(0, conflict)], now),
        verdict => take_confirmed(&mut SingleLock(lock), caller, ask, wait, vec![verdict], now),
    }
}

/// Sets who hears what becomes of a grant of the running command, and which connection keeps it alive.
#[inline(always)]
pub(super) fn keep<S: LockAccess>(
    lock: &mut S,
    client: u64,
    ask: &AcquireRequest<'_>,
    wait: &WaitOptions,
    fence: Fence,
    until: Deadline,
    now: Now,
) {
    if ask.once && !lock.idle() {
        // Its owner knows of it.
        lock.here(|table, at| table.share_hold(at, fence));
    }
    if let Some(channel) = &wait.channel {
        let owner = ask.owner.borrowed().into_owned();
        lock.here(|table, at| table.listeners().watch(at, fence, owner, channel.clone()));
        lease_moved(lock, fence, until, now);
    }
    if ask.session {
        sessions::start(lock, client, fence, ask.lease, until, now);
    }
}
