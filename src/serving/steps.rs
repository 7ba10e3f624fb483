//! What commands do to a lock, one step each.

use super::callers::{self, Client};
use super::desk::{Desk, publish};
use super::desks::Desks;
use super::state::{STATE, now};
use super::{budget, host, listener, tick};
use crate::error::Error;
use crate::keyspace::LockKey;
use crate::lock::{Ask, Deadline, Got, Grant, Now, Owner};
use crate::server::{Arg, Ctx};
use crate::waiting::{self, At, Left, Longer, Note, Outcome, Ticket, Wait};

/// A step on a lock, after which the timers are set for what is due.
fn step<'a, R>(
    ctx: &'a Ctx<'a>,
    key: Arg<'a>,
    body: impl FnOnce(&mut Desk<'a>) -> Result<R, Error>,
) -> Result<R, Error> {
    budget::begin_turn();
    Desk::step(ctx, key, body, look_out)
}

/// The same on several.
fn step_all<'a, R>(
    ctx: &'a Ctx<'a>,
    keys: &[Arg<'a>],
    body: impl FnOnce(&mut Desks<'a>) -> Result<R, Error>,
) -> Result<R, Error> {
    budget::begin_turn();
    Desks::step(ctx, keys, body, look_out)
}

fn look_out(ctx: &Ctx<'_>) {
    if !STATE.with(|state| state.is_empty()) {
        listener::listen(ctx);
    }
    tick::arm();
}

/// Takes the lock for the client of the running command, or has it wait: what is granted, and the end of the lease.
pub(crate) fn acquire(
    ctx: &Ctx<'_>,
    key: Arg<'_>,
    ask: &Ask<'_>,
    wait: &mut Wait,
    now: Now,
) -> Result<Outcome<(Got, Deadline)>, Error> {
    may_be_kept(ctx, ask, wait)?;
    step(ctx, key, |desk| Ok(waiting::acquire(desk, &mut Client(ctx), ask, wait, now)?))
}

/// The same of all these locks, or of none.
pub(crate) fn acquire_all(
    ctx: &Ctx<'_>,
    keys: &[Arg<'_>],
    ask: &Ask<'_>,
    wait: &mut Wait,
    now: Now,
) -> Result<Outcome<(Vec<Got>, Deadline)>, Error> {
    may_be_kept(ctx, ask, wait)?;
    step_all(ctx, keys, |desks| Ok(waiting::acquire_all(desks, &mut Client(ctx), ask, wait, now)?))
}

/// Whether the client may have what is to hang on its connection or its user.
#[inline(always)]
fn may_be_kept(ctx: &Ctx<'_>, ask: &Ask<'_>, wait: &mut Wait) -> Result<(), Error> {
    if ask.session {
        callers::may_have_session(ctx)?;
    }
    if let Some(channel) = &mut wait.channel {
        *channel = callers::may_be_notified(ctx, channel)?;
    }
    if wait.confirm.is_some() {
        callers::may_be_told_later(ctx)?;
    }
    Ok(())
}

/// Gives up a place in the queue, or a grant that has not been claimed; whether there was such.
pub(crate) fn leave(ctx: &Ctx<'_>, key: Arg<'_>, owner: &Owner<'_>) -> Result<bool, Error> {
    let Left { any, others } = step(ctx, key, |desk| Ok(waiting::leave(desk, owner, now())))?;
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
    step(ctx, key, |desk| Ok(waiting::release(desk, owner, fence, all, now)?))
}

/// Gives back one hold of each of these locks, or all: the holds left; none where it is not held.
pub(crate) fn release_all(
    ctx: &Ctx<'_>,
    keys: &[Arg<'_>],
    owner: &Owner<'_>,
    fence: Option<u64>,
    all: bool,
) -> Result<Vec<Option<u32>>, Error> {
    step_all(ctx, keys, |desks| Ok(waiting::release_all(desks, owner, fence, all, now)))
}

/// Sets the lease to that long from now: its end.
pub(crate) fn extend(
    ctx: &Ctx<'_>,
    key: Arg<'_>,
    longer: &Longer<'_>,
    now: Now,
) -> Result<Outcome<Deadline>, Error> {
    if longer.confirm.is_some() {
        callers::may_be_told_later(ctx)?;
    }
    step(ctx, key, |desk| Ok(waiting::extend(desk, &mut Client(ctx), longer, now)?))
}

/// Sets the leases of all these locks to that long from now, or of none: the first end.
pub(crate) fn extend_all(
    ctx: &Ctx<'_>,
    keys: &[Arg<'_>],
    longer: &Longer<'_>,
    now: Now,
) -> Result<Outcome<Deadline>, Error> {
    if longer.confirm.is_some() {
        callers::may_be_told_later(ctx)?;
    }
    step_all(ctx, keys, |desks| Ok(waiting::extend_all(desks, &mut Client(ctx), longer, now)?))
}

/// Ends the grant with that fence, or all, whoever holds them: those grants.
pub(crate) fn break_(ctx: &Ctx<'_>, key: Arg<'_>, fence: Option<u64>) -> Result<Vec<Grant>, Error> {
    step(ctx, key, |desk| Ok(waiting::break_(desk, fence, now)))
}

/// What `LOCK.SETTLE` does with one lock; refused where no timer runs it.
pub(crate) fn settle(ctx: &Ctx<'_>, key: Arg<'_>) -> Result<(), Error> {
    let now = timer_now()?;
    budget::begin_step();
    let settle = |desk: &mut Desk<'_>| {
        waiting::settle(desk, now);
        Ok(())
    };
    match Desk::step(ctx, key, settle, look_out) {
        Err(Error::WrongType) => {
            overwritten(ctx, key);
            Ok(())
        }
        settled => settled,
    }
}

/// The same with the other locks that an owner has given up with one.
pub(crate) fn settle_left(ctx: &Ctx<'_>, keys: &[Arg<'_>]) -> Result<(), Error> {
    let owner = host::left_by().ok_or(Error::NotAClientCommand)?;
    // A timer sees to what holds something else.
    Desks::step(
        ctx,
        keys,
        |desks| {
            waiting::leave_others(desks, &owner, now());
            Ok(())
        },
        look_out,
    )
}

/// The same with all locks that a waiter waits for.
pub(crate) fn settle_together(ctx: &Ctx<'_>, ticket: Ticket, keys: &[Arg<'_>]) -> Result<(), Error> {
    let now = timer_now()?;
    budget::begin_step();
    let settle = |desks: &mut Desks<'_>| {
        waiting::settle_together(desks, ticket, now);
        Ok(())
    };
    match Desks::step(ctx, keys, settle, look_out) {
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
    for _ in 0..STATE.with(|state| state.overwritten(At { db, key: key.bytes() })) {
        publish(ctx, key, Note::Lapsed);
    }
}
