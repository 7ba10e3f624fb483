//! `LOCK.LEAVE`: an owner gives up its place (a position in the queue, `NOTIFY`), or the grant that its place got and that the owner has
//! not claimed yet.

use super::access::LockAccess;
use super::lock_set::LocksAccess;
use super::settle::settle_for;
use super::table::LockId;
use crate::lock::{Now, Owner};

/// What an owner has given up.
#[derive(Debug, Default)]
pub struct GivenUp {
    /// Whether the owner gave up a place or an unclaimed grant.
    pub any: bool,
    /// The other locks of the request, if the owner gave up unclaimed grants of several locks. `leave_others` ends the grants of these
    /// locks.
    pub others: Vec<LockId>,
}

/// Gives up the owner's place in the queue, or its unclaimed grant.
pub fn leave<S: LockAccess>(lock: &mut S, owner: &Owner<'_>, now: Now) -> GivenUp {
    if lock.idle() {
        return GivenUp::default();
    }
    settle_for(lock, owner, now);
    let owner = owner.borrowed().into_owned();
    let held = lock.value().and_then(|value| value.grant_of(&owner)).map(|grant| grant.fence());
    let left = lock.here(|table, at| table.leave_queue(at, &owner, held));
    // If the owner gave up a grant, this takes back the hold that the owner had not claimed. In any case, this serves the waiters that now
    // fit.
    settle_for(lock, &owner, now);
    left
}

/// Ends the unclaimed grants of the other locks that an owner gave up with `LOCK.LEAVE` (see `GivenUp::others`).
pub fn leave_others<B: LocksAccess>(locks: &mut B, owner: &Owner<'_>, now: Now) {
    locks.each(|lock| settle_for(lock, owner, now));
}
