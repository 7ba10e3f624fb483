//! What commands do to a lock, one step each.

use super::callers::{self, Client};
use super::desk::{Desk, publish};
use super::state::{STATE, now};
use super::{listener, tick};
use crate::error::Error;
use crate::lock::{Ask, Deadline, Grant, Millis, Now, Owner};
use crate::server::{Arg, Ctx};
use crate::waiting::{self, At, Note, Outcome, Wait};

/// A step on a lock, after which the timers are set for what is due.
fn step<'a, R>(
    ctx: &'a Ctx<'a>,
    key: Arg<'a>,
    body: impl FnOnce(&mut Desk<'a>) -> Result<R, Error>,
) -> Result<R, Error> {
    Desk::step(ctx, key, body, |ctx| {
        if !STATE.with(|state| state.is_empty()) {
            listener::listen(ctx);
        }
        tick::arm();
    })
}

/// Takes the lock for the client of the running command, or has it wait.
pub(crate) fn acquire(
    ctx: &Ctx<'_>,
    key: Arg<'_>,
    ask: &Ask<'_>,
    wait: &Wait,
    now: Now,
) -> Result<Outcome, Error> {
    if ask.session {
        callers::may_have_session(ctx)?;
    }
    if let Some(channel) = &wait.channel {
        callers::may_be_notified(ctx, channel)?;
    }
    step(ctx, key, |desk| Ok(waiting::acquire(desk, &mut Client(ctx), ask, wait, now)?))
}

/// Gives up a place in the queue, or a grant that has not been claimed; whether there was such.
pub(crate) fn leave(ctx: &Ctx<'_>, key: Arg<'_>, owner: &Owner<'_>) -> Result<bool, Error> {
    step(ctx, key, |desk| Ok(waiting::leave(desk, owner, now())))
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

/// Sets the lease to that long from now: its end.
pub(crate) fn extend(
    ctx: &Ctx<'_>,
    key: Arg<'_>,
    owner: &Owner<'_>,
    fence: Option<u64>,
    lease: Millis,
    now: Now,
) -> Result<Deadline, Error> {
    step(ctx, key, |desk| Ok(waiting::extend(desk, owner, fence, lease, now)?))
}

/// Ends the grant with that fence, or all, whoever holds them: those grants.
pub(crate) fn break_(ctx: &Ctx<'_>, key: Arg<'_>, fence: Option<u64>) -> Result<Vec<Grant>, Error> {
    step(ctx, key, |desk| Ok(waiting::break_(desk, fence, now)))
}

/// What `LOCK.SETTLE` does; refused where no alarm runs it.
pub(crate) fn settle(ctx: &Ctx<'_>, key: Arg<'_>) -> Result<(), Error> {
    if !tick::is_ringing() {
        return Err(Error::NotAClientCommand);
    }
    let now = now();
    let settled = step(ctx, key, |desk| {
        waiting::settle(desk, now);
        Ok(())
    });
    if settled.is_err() {
        let db = ctx.db();
        for _ in 0..STATE.with(|state| state.overwritten(At { db, key: key.bytes() })) {
            publish(ctx, key, Note::Lapsed);
        }
    }
    Ok(())
}
