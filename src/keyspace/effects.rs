//! Replicates the changes of locks: each as a `LOCK.APPLY` with what `rules::encoding` makes of it.

use std::ffi::CStr;

use crate::server::{Arg, Ctx, LogLevel};
use rules::encoding::{number_of, state};
use rules::lock::{Deadline, Fence, Grant, Millis};

/// The command that carries effects. Other commands would not do, because an operator may have renamed `DEL` or `PEXPIREAT`.
pub(crate) const APPLY: &CStr = c"lock.apply";

/// Replicates that the lock is held by `grant` alone.
#[inline(always)]
pub(super) fn alone(ctx: &Ctx<'_>, key: Arg<'_>, grant: &Grant, deadline: Deadline) {
    check(ctx, ctx.replicate_bytes(APPLY, key, &state(grant, deadline, true)));
}

/// Replicates that the lock is held by `grant` beside the other grants.
pub(super) fn among(ctx: &Ctx<'_>, key: Arg<'_>, grant: &Grant, deadline: Deadline) {
    check(ctx, ctx.replicate_bytes(APPLY, key, &state(grant, deadline, false)));
}

/// Replicates that the grant with this fence has ended.
pub(super) fn end(ctx: &Ctx<'_>, key: Arg<'_>, fence: Fence) {
    check(ctx, ctx.replicate_bytes(APPLY, key, format!("~{}", fence.get()).as_bytes()));
}

/// Replicates that all grants whose leases ended before `now` have lapsed. `now` is in ms since 1970.
pub(super) fn end_lapsed(ctx: &Ctx<'_>, key: Arg<'_>, now: Millis) {
    check(ctx, ctx.replicate_bytes(APPLY, key, format!("<{now}").as_bytes()));
}

/// Replicates that the lock is held as before, and that the TTL of its key ends at `deadline`.
pub(super) fn lease(ctx: &Ctx<'_>, key: Arg<'_>, deadline: Deadline) {
    let mut digits = itoa::Buffer::new();
    let state = digits.format(number_of(deadline));
    check(ctx, ctx.replicate_bytes(APPLY, key, state.as_bytes()));
}

#[inline]
pub(super) fn free(ctx: &Ctx<'_>, key: Arg<'_>) {
    check(ctx, ctx.replicate_key(APPLY, key));
}

/// Warns if the server did not replicate an effect. An operator must know, because the replicas now differ, and the module can't repair
/// them.
fn check(ctx: &Ctx<'_>, sent: bool) {
    if !sent {
        ctx.log(LogLevel::Warning, "an effect could not be replicated: was LOCK.APPLY renamed?");
    }
}
