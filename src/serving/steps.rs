//! What commands do to a lock, one step each.

use super::callers::{self, Client};
use super::open_lock::{OpenLock, publish};
use super::open_locks::OpenLocks;
use super::table::{TABLE, now};
use super::{budget, host, listener, tick};
use crate::error::Error;
use crate::keyspace::LockKey;
use crate::lock::{AcquireRequest, Deadline, Got, Grant, Now, Owner};
use crate::server::{Arg, Ctx};
use crate::waiting::{self, ExtendRequest, Left, LockEvent, LockRef, Outcome, RequestId, WaitOptions};

/// A step on a lock, after which the timers are set for what is due.
fn step<'a, R>(
    ctx: &'a Ctx<'a>,
    key: Arg<'a>,
    body: impl FnOnce(&mut OpenLock<'a>) -> Result<R, Error>,
) -> Result<R, Error> {
    budget::begin_turn();
    OpenLock::step(ctx, key, body, look_out)
}

/// A step on several locks.
fn step_all<'a, R>(
    ctx: &'a Ctx<'a>,
    keys: &[Arg<'a>],
    body: impl FnOnce(&mut OpenLocks<'a>) -> Result<R, Error>,
) -> Result<R, Error> {
    budget::begin_turn();
    OpenLocks::step(ctx, keys, body, look_out)
}

fn look_out(ctx: &Ctx<'_>) {
    if !TABLE.with(|table| table.is_empty()) {
        listener::listen(ctx);
    }
    tick::arm();
}

/// Takes the lock for the client of the running command, or has it wait: what is granted, and the end of the lease.
pub(crate) fn acquire(
    ctx: &Ctx<'_>,
    key: Arg<'_>,
    ask: &AcquireRequest<'_>,
    wait: &mut WaitOptions,
    now: Now,
) -> Result<Outcome<(Got, Deadline)>, Error> {
    may_be_kept(ctx, ask, wait)?;
    step(ctx, key, |lock| Ok(waiting::acquire(lock, &mut Client(ctx), ask, wait, now)?))
}

/// Acquires all these locks, or none.
pub(crate) fn acquire_all(
    ctx: &Ctx<'_>,
    keys: &[Arg<'_>],
    ask: &AcquireRequest<'_>,
    wait: &mut WaitOptions,
    now: Now,
) -> Result<Outcome<(Vec<Got>, Deadline)>, Error> {
    may_be_kept(ctx, ask, wait)?;
    step_all(ctx, keys, |locks| Ok(waiting::acquire_all(locks, &mut Client(ctx), ask, wait, now)?))
}

/// Whether the client may have what is to hang on its connection or its user.
#[inline(always)]
fn may_be_kept(ctx: &Ctx<'_>, ask: &AcquireRequest<'_>, wait: &mut WaitOptions) -> Result<(), Error> {
    if ask.session {
        callers::may_have_session(ctx)?;
    }
    if let Some(channel) = &mut wait.channel {
        channel.address = callers::may_be_notified(ctx, &channel.address)?;
    }
    if wait.confirm.is_some() {
        callers::may_be_told_later(ctx)?;
    }
    Ok(())
}

/// Gives up a place in the queue, or a grant that has not been claimed; whether there was such.
pub(crate) fn leave(ctx: &Ctx<'_>, key: Arg<'_>, owner: &Owner<'_>) -> Result<bool, Error> {
    let Left { any, others } = step(ctx, key, |lock| Ok(waiting::leave(lock, owner, now())))?;
    if !others.is_empty() {
        // Where the server refuses, a timer does it.
        host::settle_left(ctx, owner, &others);
    }
    Ok(any)
}

/// Gives back one hold, or all: the holds left.
pub(crate) fn release(
    ctx: &Ctx<'_>,
    key: Arg<'_>,
    owner: &Owner<'_>,
    fence: Option<u64>,
    all: bool,
) -> Result<u32, Error> {
    step(ctx, key, |lock| Ok(waiting::release(lock, owner, fence, all, now)?))
}

/// Gives back one hold of each of these locks, or all: the holds left; none where it is not held.
pub(crate) fn release_all(
    ctx: &Ctx<'_>,
    keys: &[Arg<'_>],
    owner: &Owner<'_>,
    fence: Option<u64>,
    all: bool,
) -> Result<Vec<Option<u32>>, Error> {
    step_all(ctx, keys, |locks| Ok(waiting::release_all(locks, owner, fence, all, now)))
}

/// Sets the lease to that long from now: its end.
pub(crate) fn extend(
    ctx: &Ctx<'_>,
    key: Arg<'_>,
    longer: &ExtendRequest<'_>,
    now: Now,
) -> Result<Outcome<Deadline>, Error> {
    if longer.confirm.is_some() {
        callers::may_be_told_later(ctx)?;
    }
    step(ctx, key, |lock| Ok(waiting::extend(lock, &mut Client(ctx), longer, now)?))
}

/// Sets the leases of all these locks to that long from now, or of none: the first end.
pub(crate) fn extend_all(
    ctx: &Ctx<'_>,
    keys: &[Arg<'_>],
    longer: &ExtendRequest<'_>,
    now: Now,
) -> Result<Outcome<Deadline>, Error> {
    if longer.confirm.is_some() {
        callers::may_be_told_later(ctx)?;
    }
    step_all(ctx, keys, |locks| Ok(waiting::extend_all(locks, &mut Client(ctx), longer, now)?))
}

/// Ends the grant with that fence, or all, whoever holds them: those grants.
pub(crate) fn break_(ctx: &Ctx<'_>, key: Arg<'_>, fence: Option<u64>) -> Result<Vec<Grant>, Error> {
    step(ctx, key, |lock| Ok(waiting::break_(lock, fence, now)))
}

/// What `LOCK.SETTLE` does with one lock; refused where no timer runs it.
pub(crate) fn settle(ctx: &Ctx<'_>, key: Arg<'_>) -> Result<(), Error> {
    let now = timer_now()?;
    budget::begin_step();
    let settle = |lock: &mut OpenLock<'_>| {
        waiting::settle(lock, now);
        Ok(())
    };
    match OpenLock::step(ctx, key, settle, look_out) {
        Err(Error::WrongType) => {
            overwritten(ctx, key);
            Ok(())
        }
        settled => settled,
    }
}

/// What `LOCK.SETTLE` does with the other locks that an owner has given up together with one.
pub(crate) fn settle_left(ctx: &Ctx<'_>, keys: &[Arg<'_>]) -> Result<(), Error> {
    let owner = host::left_by().ok_or(Error::NotAClientCommand)?;
    // A timer sees to what holds something else.
    OpenLocks::step(
        ctx,
        keys,
        |locks| {
            waiting::leave_others(locks, &owner, now());
            Ok(())
        },
        look_out,
    )
}

/// What `LOCK.SETTLE` does with all locks that a waiter waits for.
pub(crate) fn settle_together(ctx: &Ctx<'_>, request: RequestId, keys: &[Arg<'_>]) -> Result<(), Error> {
    let now = timer_now()?;
    budget::begin_step();
    let settle = |locks: &mut OpenLocks<'_>| {
        waiting::settle_together(locks, request, now);
        Ok(())
    };
    match OpenLocks::step(ctx, keys, settle, look_out) {
        Err(Error::WrongType) => {
            // Then nobody waits for the one that holds something else.
            let others = keys.iter().filter(|key| LockKey::read(ctx, **key).is_err());
            others.for_each(|key| overwritten(ctx, *key));
            Ok(())
        }
        settled => settled,
    }
}

fn timer_now() -> Result<Now, Error> {
    if tick::is_running() { Ok(now()) } else { Err(Error::NotAClientCommand) }
}

/// The key holds something else.
fn overwritten(ctx: &Ctx<'_>, key: Arg<'_>) {
    let db = ctx.db();
    for _ in 0..TABLE.with(|table| table.overwritten(LockRef { db, key: key.bytes() })) {
        publish(ctx, key, LockEvent::Lapsed);
    }
}
