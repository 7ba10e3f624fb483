//! What replicas and the append-only file are told of a change: `LOCK.APPLY`.
//!
//! | form | the lock is |
//! |---|---|
//! | `LOCK.APPLY key` | free |
//! | `LOCK.APPLY key deadline` | held as before, until then |
//! | `LOCK.APPLY key owner fence holds max-hold deadline` | held so |
//!
//! `deadline` in ms since 1970, -1: none; `max-hold` in ms, 0: none.

use std::ffi::CStr;

use crate::lock::{Deadline, Fence, Grant, Millis};
use crate::server::{Arg, Ctx, LogLevel};

/// The command that carries effects. One of our own, not `DEL` and `PEXPIREAT`: an operator may have renamed those.
pub(crate) const APPLY: &CStr = c"lock.apply";

/// Where a deadline would be, the word for none; as `PTTL` answers it.
pub(super) const NO_DEADLINE: Millis = -1;

/// Tells that the lock is held so.
pub(super) fn held(ctx: &Ctx<'_>, key: Arg<'_>, grant: &Grant, deadline: Deadline) {
    if ctx.must_replicate() {
        let numbers = numbers(grant, deadline);
        check(ctx, ctx.replicate_value(APPLY, key, grant.owner().text().as_ref(), numbers));
    }
}

/// Tells that the lease of a held lock ends then.
pub(super) fn lease(ctx: &Ctx<'_>, key: Arg<'_>, deadline: Deadline) {
    if ctx.must_replicate() {
        check(ctx, ctx.replicate_integer(APPLY, key, number(deadline)));
    }
}

/// Tells that the lock is free.
pub(super) fn free(ctx: &Ctx<'_>, key: Arg<'_>) {
    if ctx.must_replicate() {
        check(ctx, ctx.replicate_key(APPLY, key));
    }
}

/// The numbers of a grant in the order in which `LOCK.APPLY` takes them.
pub(super) fn numbers(grant: &Grant, deadline: Deadline) -> [i64; 4] {
    [signed(grant.fence()), grant.holds().into(), grant.max_hold().unwrap_or(0), number(deadline)]
}

fn number(deadline: Deadline) -> Millis {
    match deadline {
        Deadline::At(at) => at,
        Deadline::Never => NO_DEADLINE,
    }
}

/// A fence as the server's signed number; it is below 2^53.
pub(super) fn signed(fence: Fence) -> i64 {
    fence.get().cast_signed()
}

/// An effect that is not told leaves the replicas behind: nothing can be done here, but somebody must know.
fn check(ctx: &Ctx<'_>, sent: bool) {
    if !sent {
        ctx.log(LogLevel::Warning, "an effect could not be replicated: was LOCK.APPLY renamed?");
    }
}
