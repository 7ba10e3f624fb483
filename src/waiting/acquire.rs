//! An acquire, of one lock or of several: granted, re-entered, refused, or put into the queues.

use super::access::{Caller, LockAccess, LocksAccess, Refusal};
use super::confirm::tell_when_confirmed;
use super::grant::{Granted, carry_out, plan};
use super::join::{self, Outcome, WaitOptions};
use super::leases::lease_moved;
use super::sessions;
use super::settle::settle_for;
use super::verdict::{Standing, judge, unsettled};
use crate::lock::{AcquireRequest, Deadline, Got, Now};

/// Takes all these locks, or waits for all of them: what is granted of each, and the end of the lease that ends first. New grants have
/// one fence.
pub(crate) fn acquire<B: LocksAccess>(
    locks: &mut B,
    caller: &mut impl Caller<B::One>,
    ask: &AcquireRequest<'_>,
    wait: &WaitOptions,
    now: Now,
) -> Result<Outcome<(B::Each<Got>, Deadline)>, Refusal> {
    if ask.session {
        join::may_keep(locks, caller, ask)?;
    }
    let settled = locks.each(|lock| settle_for(lock, &ask.owner, now));
    let verdicts = locks.try_with(&settled, |lock, is_settled| {
        let verdict = judge(lock, ask, Standing::New, now);
        if *is_settled { verdict } else { verdict.map(unsettled) }
    })?;
    let Ok(decisions) = locks.try_with(&verdicts, |_, verdict| verdict.as_ref().copied().map_err(drop))
    else {
        return join::wait(locks, caller, ask, wait, B::all(&verdicts), now);
    };
    let planned = plan(locks, &decisions, now)?;
    let blocked = match wait.confirm {
        None => None,
        Some(_) => match join::block(locks, caller) {
            None => return Ok(Outcome::Taken),
            blocked => blocked,
        },
    };
    let (granted, first_end) = carry_out::<false, B>(locks, ask, &planned, now);
    if let Some(blocked) = blocked {
        tell_when_confirmed(locks, caller.id(), blocked, ask, wait, (&granted, first_end), now);
        return Ok(Outcome::Waits);
    }
    let got = locks.with(&granted, |lock, granted| {
        keep(lock, caller.id(), ask, wait, granted, now);
        granted.got
    });
    Ok(Outcome::Granted((got, first_end)))
}

/// Sets who hears what becomes of a grant of the running command, and which connection keeps it alive.
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
