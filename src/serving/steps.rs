//! What each command does to its locks in one step (see `open_lock`).

use super::callers::{self, Client};
use super::open_lock::{OpenLock, publish};
use super::open_locks::{LockNames, OpenLocks};
use super::table::{BUDGET, TABLE, now};
use super::{host, listener, tick};
use crate::error::Error;
use crate::keyspace::LockKey;
use crate::server::{Arg, Ctx};
use rules::lock::{AcquireRequest, Deadline, Grant, NotHeld, Now, Owner};
use rules::waiting::{
    self, Budget, ExtendRequest, GivenUp, Grants, LockEvent, LockRef, LocksAccess, Outcome, ReleaseRequest,
    RequestId, WaitOptions,
};

/// Runs the step of a command on its locks, and then sets timers for the work that is due.
#[inline(always)]
fn step<'a, K: LockNames<'a>, R>(
    ctx: &'a Ctx<'a>,
    keys: K,
    body: impl FnOnce(&mut K::Locks) -> Result<R, Error>,
) -> Result<R, Error> {
    BUDGET.with(Budget::begin_turn);
    keys.step(ctx, body, after_step)
}

/// Sets timers for the work that is due. If the table of waiters has an entry for any lock, first subscribes to events about changed keys,
/// unless this has already been done.
fn after_step(ctx: &Ctx<'_>) {
    if !TABLE.with(|table| table.locks.is_empty()) {
        listener::listen(ctx);
    }
    tick::arm();
}

/// Acquires the locks for the client of the running command, or makes the client wait. Returns the grant of each lock, and the end of the
/// lease that ends first.
#[inline(always)]
pub(crate) fn acquire<'a, K: LockNames<'a>>(
    ctx: &'a Ctx<'a>,
    keys: K,
    ask: &AcquireRequest<'_>,
    wait: &mut WaitOptions,
    now: Now,
) -> Result<Outcome<Grants<K::Locks>>, Error> {
    check_options(ctx, ask, wait)?;
    step(ctx, keys, |locks| Ok(waiting::acquire(locks, &mut Client(ctx), ask, wait, now)?))
}

/// Refuses `SESSION`, `NOTIFY` and `SYNC` where they are impossible, for example in a script, and `NOTIFY` if the user has no right to the
/// channel. Replaces the channel's name by the address for messages.
#[inline(always)]
fn check_options(ctx: &Ctx<'_>, ask: &AcquireRequest<'_>, wait: &mut WaitOptions) -> Result<(), Error> {
    if ask.session {
        callers::may_have_session(ctx)?;
    }
    if let Some(channel) = &mut wait.channel {
        channel.address = callers::may_be_notified(ctx, &channel.address)?;
    }
    if wait.confirm.is_some() {
        callers::may_reply_later(ctx)?;
    }
    Ok(())
}

/// Gives up the owner's place in the queue, or its unclaimed grant. Returns whether the owner had a place or an unclaimed grant.
pub(crate) fn leave(ctx: &Ctx<'_>, key: Arg<'_>, owner: &Owner<'_>) -> Result<bool, Error> {
    let GivenUp { any, others } = step(ctx, key, |lock| Ok(waiting::leave(lock, owner, now())))?;
    if !others.is_empty() {
        // If the server refuses the command that `leave_others` runs, a timer later ends the owner's grants of the other locks.
        host::leave_others(ctx, owner, &others);
    }
    Ok(any)
}

/// Releases one hold of each lock, or all holds. Returns how many holds of each lock are left, or why the owner does not hold it.
#[inline(always)]
pub(crate) fn release<'a, K: LockNames<'a>>(
    ctx: &'a Ctx<'a>,
    keys: K,
    given: ReleaseRequest<'_>,
) -> Result<<K::Locks as LocksAccess>::Each<Result<u32, NotHeld>>, Error> {
    step(ctx, keys, |locks| Ok(waiting::release(locks, given, now)))
}

/// Sets the lease of each lock to the given length from now. If one of the leases can't be set, sets none. Returns the end of the lease
/// that ends first.
pub(crate) fn extend<'a, K: LockNames<'a>>(
    ctx: &'a Ctx<'a>,
    keys: K,
    longer: &ExtendRequest<'_>,
    now: Now,
) -> Result<Outcome<Deadline>, Error> {
    if longer.confirm.is_some() {
        callers::may_reply_later(ctx)?;
    }
    step(ctx, keys, |locks| Ok(waiting::extend(locks, &mut Client(ctx), longer, now)?))
}

/// Ends the grant with this fence, or all grants, whoever holds them. Returns the ended grants.
pub(crate) fn break_(ctx: &Ctx<'_>, key: Arg<'_>, fence: Option<u64>) -> Result<Vec<Grant>, Error> {
    step(ctx, key, |lock| Ok(waiting::break_(lock, fence, now)))
}

/// Does the work of `LOCK.SETTLE` for one lock, or for all locks of a waiter's request. Returns an error if a client sent the command.
pub(crate) fn settle(ctx: &Ctx<'_>, keys: &[Arg<'_>], waiter: Option<RequestId>) -> Result<(), Error> {
    if !tick::is_running() {
        return Err(Error::NotAClientCommand);
    }
    let now = now();
    let settled = match (waiter, keys) {
        (None, [key]) => {
            let settle = |lock: &mut OpenLock<'_>| {
                waiting::settle(lock, now);
                Ok(())
            };
            key.step(ctx, settle, after_step)
        }
        (None, _) => Err(Error::TooFewKeys),
        (Some(request), keys) => {
            let settle = |locks: &mut OpenLocks<'_>| {
                waiting::settle_together(locks, request, now);
                Ok(())
            };
            keys.step(ctx, settle, after_step)
        }
    };
    match settled {
        Err(Error::WrongType) => {
            // If a key has another type, all waits for this lock end. The other locks of the request are left as they are.
            let others = keys.iter().filter(|key| LockKey::read(ctx, **key).is_err());
            others.for_each(|key| overwritten(ctx, *key));
            Ok(())
        }
        settled => settled,
    }
}

/// Does the work of `LOCK.SETTLE` after a `LOCK.LEAVE` that gave up a request for several locks, but named only one of them. `keys` are the
/// other locks. Returns an error if a client sent the command.
pub(crate) fn leave_others(ctx: &Ctx<'_>, keys: &[Arg<'_>]) -> Result<(), Error> {
    let owner = host::left_by().ok_or(Error::NotAClientCommand)?;
    // If a key has another type, this step fails, and a timer serves the waiters of the locks.
    let leave = |locks: &mut OpenLocks<'_>| {
        waiting::leave_others(locks, &owner, now());
        Ok(())
    };
    keys.step(ctx, leave, after_step)
}

/// Handles a key that now has another type: tells the lock's waiters and holders, and publishes lapses.
fn overwritten(ctx: &Ctx<'_>, key: Arg<'_>) {
    let db = ctx.db();
    for _ in 0..TABLE.with(|table| table.overwritten(LockRef { db, key: key.bytes() })) {
        publish(ctx, key, LockEvent::Lapsed);
    }
}
