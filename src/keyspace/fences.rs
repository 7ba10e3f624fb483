//! This server's clock of fences, and fences from elsewhere.
//!
//! Files, a primary, and a node that moves a hash slot here contain fences of grants that were really made, so each counts at once, however
//! far it is ahead of the clock. A payload that a client sends (`RESTORE`, `MIGRATE`) may contain anything. Its fence may be ahead of the
//! clock by no more than clocks may be wrong, and counts only once the key exists, since a refused command must change nothing.

use super::LockKey;
use crate::lock::{Deadline, Fence, FenceClock, Micros, Value};
use crate::server::{self, Arg, Ctx, ServerCell};

/// How far apart clocks may be: ten minutes. For this long after a grant, files keep its fence, in case the clock is set back while the
/// server is down. The fence in a client's payload may be ahead of the clock by up to this much, because it may come from a server with a
/// fast clock. Clocks that differ by more are not supported.
pub(super) const CLOCKS_DIFFER: Micros = 600_000_000;

static FENCES: ServerCell<FenceClock> = ServerCell::new(FenceClock::new());

/// The fence for a grant made now; `None` once the greatest fence has been given.
pub(crate) fn next_fence(now: Micros) -> Option<Fence> {
    FENCES.with(|clock| clock.next(now))
}

/// The last fence that this server gave or saw.
pub(super) fn last_fence() -> Option<Fence> {
    FENCES.with(|clock| clock.last())
}

/// Forgets all fences, as after a start, so that no input of a fuzzer depends on an earlier input.
#[cfg(fuzzing)]
pub(super) fn forget_fences() {
    FENCES.with(|clock| *clock = FenceClock::new());
}

/// Takes note of a fence that another server gave.
pub(crate) fn observe_fence(fence: Fence) {
    FENCES.with(|clock| clock.observe(fence));
}

/// Checks the fences of a value that has been read, and notes the latest. The error: a client sent a fence that is too far ahead of the
/// clock.
pub(super) fn loaded(value: &Value, from_client: bool) -> Result<(), String> {
    let Some(fence) = latest(value) else { return Ok(()) };
    if !from_client {
        observe_fence(fence);
    } else if last_fence() < Some(fence) && fence.granted_at() > server::now().saturating_add(CLOCKS_DIFFER) {
        return Err(format!("the fence {} is ahead of the clock by more than ten minutes", fence.get()));
    }
    Ok(())
}

/// Notes the fences of a key that was made from a client's payload, in the selected database.
pub(crate) fn restored(ctx: &Ctx<'_>, key: Arg<'_>) {
    let Ok(lock) = LockKey::peek(ctx, key) else { return };
    if let Some(fence) = lock.value().and_then(latest) {
        observe_fence(fence);
    }
}

fn latest(value: &Value) -> Option<Fence> {
    value.all(Deadline::Never).map(|held| held.grant.fence()).max()
}
