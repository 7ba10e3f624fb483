//! The clock of fences of this server, and fences that come from elsewhere.
//!
//! Files, a primary, and a node that gives a slot away tell of grants that were made: each of their fences counts at once, however
//! far ahead it is. A payload that a client sends (`RESTORE`, `MIGRATE`) tells whatever the client likes. It may be ahead by no more
//! than clocks may be wrong, and counts when its key is there: a command that is refused changes nothing.

use super::LockKey;
use crate::lock::{Deadline, Fence, FenceClock, Micros, Value};
use crate::server::{self, Arg, Ctx, ServerCell};

/// By how much clocks may be wrong: ten minutes. For so long after a grant its fence is kept in files, in case the clock is set back
/// while the server is away; and by so much a client's payload may be ahead, as one is that comes from a server whose clock is.
/// A clock that is wrong by more than that is another matter.
pub(super) const CLOCKS_DIFFER: Micros = 600_000_000;

static FENCES: ServerCell<FenceClock> = ServerCell::new(FenceClock::new());

/// The fence for a grant made now; none once the greatest has been given.
pub(crate) fn next_fence(now: Micros) -> Option<Fence> {
    FENCES.with(|clock| clock.next(now))
}

/// The last fence that this server gave or saw.
pub(super) fn last_fence() -> Option<Fence> {
    FENCES.with(|clock| clock.last())
}

/// Forgets all fences, as after a start, so that no input of a fuzzer depends on an earlier one.
#[cfg(fuzzing)]
pub(super) fn forget_fences() {
    FENCES.with(|clock| *clock = FenceClock::new());
}

/// Takes note of a fence that another server gave.
pub(crate) fn observe_fence(fence: Fence) {
    FENCES.with(|clock| clock.observe(fence));
}

/// A value was read to its end. An error where a client sent it, and a fence is further ahead than it may be.
pub(super) fn loaded(value: &Value, from_client: bool) -> Result<(), String> {
    let Some(fence) = latest(value) else { return Ok(()) };
    if !from_client {
        observe_fence(fence);
    } else if last_fence() < Some(fence) && fence.granted_at() > server::now().saturating_add(CLOCKS_DIFFER) {
        return Err(format!("the fence {} is ahead of the clock by more than ten minutes", fence.get()));
    }
    Ok(())
}

/// A key of the selected database was made from a client's payload.
pub(crate) fn restored(ctx: &Ctx<'_>, key: Arg<'_>) {
    let Ok(lock) = LockKey::peek(ctx, key) else { return };
    if let Some(fence) = lock.value().and_then(latest) {
        observe_fence(fence);
    }
}

fn latest(value: &Value) -> Option<Fence> {
    value.all(Deadline::Never).map(|held| held.grant.fence()).max()
}
