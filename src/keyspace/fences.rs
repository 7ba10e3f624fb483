//! The clock that gives fences, and the fences that come from files and other servers.
//!
//! Fences from files, from a primary, or from a node that moves a hash slot to this server belong to grants that were really made. So from
//! then on, the clock gives only fences that are greater than such a fence, however far the fence is ahead of the time. A payload that a
//! client sends (`RESTORE`, `MIGRATE`) could contain any fence. So it is refused if its fence is ahead of the time by more than clocks may
//! differ, unless the clock has already given or noted a fence as great. The clock does not note this fence before the key exists, because
//! a refused command must change nothing.

use super::LockKey;
use crate::server::{self, Arg, Ctx, ServerCell};
use rules::lock::{Deadline, Fence, FenceClock, Micros, Value};

/// The module assumes that the clocks of two servers differ by at most this many microseconds: ten minutes. A file that is saved within
/// this time after the last grant has the grant's fence, in case the clock is set back while the server is down. A client's payload is
/// allowed a fence this far ahead of the clock, because the payload can come from a server whose clock is fast.
pub(super) const CLOCKS_DIFFER: Micros = 600_000_000;

static FENCES: ServerCell<FenceClock> = ServerCell::new(FenceClock::new());

pub(crate) fn with_fences<R>(body: impl FnOnce(&mut FenceClock) -> R) -> R {
    FENCES.with(body)
}

/// Returns the greatest fence that this server has given or seen.
pub(super) fn last_fence() -> Option<Fence> {
    FENCES.with(|clock| clock.last())
}

/// Forgets all fences, so that no input of a fuzzer depends on earlier inputs.
#[cfg(fuzzing)]
pub(super) fn forget_fences() {
    FENCES.with(|clock| *clock = FenceClock::new());
}

/// Notes a fence that another server gave, so that later fences are greater.
pub(crate) fn observe_fence(fence: Fence) {
    FENCES.with(|clock| clock.observe(fence));
}

/// Looks at the greatest fence of a value that has been read. If a client sent the value, returns an error if this fence is too far ahead
/// of the clock. If the value comes from elsewhere, notes this fence.
pub(super) fn loaded(value: &Value, from_client: bool) -> Result<(), String> {
    let Some(fence) = latest(value) else { return Ok(()) };
    if !from_client {
        observe_fence(fence);
    } else if last_fence() < Some(fence) && fence.granted_at() > server::now().saturating_add(CLOCKS_DIFFER) {
        return Err(format!("the fence {} is ahead of the clock by more than ten minutes", fence.get()));
    }
    Ok(())
}

/// A client's payload has become this key of the selected database. Notes the greatest fence of the key's value.
pub(crate) fn restored(ctx: &Ctx<'_>, key: Arg<'_>) {
    let Ok(lock) = LockKey::peek(ctx, key) else { return };
    if let Some(fence) = lock.value().and_then(latest) {
        observe_fence(fence);
    }
}

fn latest(value: &Value) -> Option<Fence> {
    value.all(Deadline::Never).map(|held| held.grant.fence()).max()
}
