//! Acquires one lock or several: grants them, re-enters them, puts the client into the queues, or refuses.

use super::access::{Caller, LockAccess, Refusal};
use super::confirm::tell_when_confirmed;
use super::grant::{Granted, Planned, carry_out, grant, plan};
use super::join::{self, Outcome, WaitOptions};
use super::lapse::lease_moved;
use super::lock_set::LocksAccess;
use super::sessions;
use super::settle::settle_for;
use super::verdict::{Decision, GrantKind, Standing, judge, unsettled};
use crate::lock::{AcquireRequest, Deadline, Got, Now, SlotRequest};

/// The grant of each lock, and the end of the lease that ends first.
pub type Grants<B> = (<B as LocksAccess>::Each<Got>, Deadline);

/// Grants all locks to the client, or makes the client wait for all of them. All new grants have the same fence.
#[inline(always)]
pub fn acquire<B: LocksAccess>(
    locks: &mut B,
    caller: &mut impl Caller<B::One>,
    ask: &AcquireRequest<'_>,
    wait: &WaitOptions,
    now: Now,
) -> Result<Outcome<Grants<B>>, Refusal> {
    let depends_on_client = ask.session || wait.channel.is_some() || wait.confirm.is_some();
    if !B::SEVERAL
        && !depends_on_client
        && let Some(Granted { got, until, .. }) = grant_free(locks.first(), ask, now)
    {
        return Ok(Outcome::Granted((locks.each(|_| got), until)));
    }
    acquire_any(locks, caller, ask, wait, now)
}

/// The fast path, which most acquires take: grants one lock that is free, and that has no entry in the table. Returns `None` if the acquire
/// can't take this path.
#[inline(always)]
fn grant_free<S: LockAccess>(lock: &mut S, ask: &AcquireRequest<'_>, now: Now) -> Option<Granted> {
    if lock.value().is_some() || lock.grace().grants > 0 || !lock.idle() {
        return None;
    }
    let until = ask.new_deadline(lock.limits(), now.start);
    let fence = lock.next_fence(now)?;
    let slot = ask.slot.map(SlotRequest::alone);
    let decision = Decision { kind: GrantKind::Alone, holds: 1, room: ask.room, slot, until };
    Some(grant::<false, S>(lock, ask, Planned { fence, decision }, now))
}

/// Handles every acquire that can't take the fast path. This function is not inlined, so that the fast path does not pay for it.
#[inline(never)]
fn acquire_any<B: LocksAccess>(
    locks: &mut B,
    caller: &mut impl Caller<B::One>,
    ask: &AcquireRequest<'_>,
    wait: &WaitOptions,
    now: Now,
) -> Result<Outcome<Grants<B>>, Refusal> {
    if ask.session {
        join::check_sessions(locks, caller, ask)?;
    }
    let settled = locks.each(|lock| settle_for(lock, &ask.owner, now));
    let verdicts = locks.try_with(&settled, |lock, is_settled| {
        let verdict = judge(lock, ask, Standing::New, now);
        if *is_settled { verdict } else { verdict.map(unsettled) }
    })?;
    let Ok(decisions) = locks.try_with(&verdicts, |_, verdict| *verdict) else {
        return join::wait(locks, caller, ask, wait, B::all(&verdicts), now);
    };
    let planned = plan(locks, &decisions, now).ok_or(Refusal::NoMoreFences)?;
    let blocked = match wait.confirm {
        None => None,
        Some(_) => match join::block(locks, caller) {
            None => return Ok(Outcome::Taken),
            blocked => blocked,
        },
    };
    let (granted, first_deadline) = carry_out::<false, B>(locks, ask, &planned, now);
    if let Some(blocked) = blocked {
        tell_when_confirmed(locks, caller.id(), blocked, ask, wait, (&granted, first_deadline), now);
        return Ok(Outcome::Waits);
    }
    let got = locks.with(&granted, |lock, granted| {
        keep(lock, caller.id(), ask, wait, granted, now);
        granted.got
    });
    Ok(Outcome::Granted((got, first_deadline)))
}

/// Notes the channel for messages about the running command's grant (`NOTIFY`), and the connection that keeps this grant alive (`SESSION`).
#[inline(always)]
fn keep<S: LockAccess>(
    lock: &mut S,
    client: u64,
    ask: &AcquireRequest<'_>,
    wait: &WaitOptions,
    granted: &Granted,
    now: Now,
) {
    let (fence, until) = (granted.got.fence, granted.until);
    if ask.once && !lock.idle() {
        // The reply tells the owner that it holds the lock. But with `ONCE`, this acquire may have added no hold, and the only hold may be
        // that of another client of the same owner, which was blocked and has not been told yet. From now on, this hold stays even if that
        // client goes away.
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
