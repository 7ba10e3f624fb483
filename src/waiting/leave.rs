//! An owner that waits without being blocked gives up its place.

use super::access::LockAccess;
use super::lock_set::LocksAccess;
use super::settle::settle_for;
use super::table::LockId;
use crate::lock::{Now, Owner};

/// What an owner has given up.
#[derive(Debug, Default)]
pub(crate) struct GivenUp {
    /// Whether there was anything.
    pub(crate) any: bool,
    /// The other locks that it had been granted with this one: it has them no more, see `leave_others`.
    pub(crate) others: Vec<LockId>,
}

/// Gives up the owner's place in the queue, or a grant that it has not claimed.
pub(crate) fn leave<S: LockAccess>(lock: &mut S, owner: &Owner<'_>, now: Now) -> GivenUp {
    if lock.idle() {
        return GivenUp::default();
    }
    settle_for(lock, owner, now);
    let owner = owner.borrowed().into_owned();
    let held = lock.value().and_then(|value| value.grant_of(&owner)).map(|grant| grant.fence());
    let left = lock.here(|table, at| table.leave_queue(at, &owner, held));
    // What it had been granted goes to the next.
    settle_for(lock, &owner, now);
    left
}

/// Ends what an owner had been granted of the other locks, in the same command.
pub(crate) fn leave_others<B: LocksAccess>(locks: &mut B, owner: &Owner<'_>, now: Now) {
    locks.each(|lock| settle_for(lock, owner, now));
}
