//! An owner that waits without being blocked gives up its place.

use super::settle::{settle, settle_each, settle_own};
use super::site::{Site, Sites};
use super::state::Place;
use crate::lock::{Now, Owner};

/// What an owner has given up.
#[derive(Debug, Default)]
pub(crate) struct Left {
    /// Whether there was anything.
    pub(crate) any: bool,
    /// The other locks that it had been granted with this one: it has them no more, see `leave_others`.
    pub(crate) others: Vec<Place>,
}

/// Gives up the owner's place in the queue, or a grant that it has not claimed.
pub(crate) fn leave<S: Site>(site: &mut S, owner: &Owner<'_>, now: Now) -> Left {
    if site.idle() {
        return Left::default();
    }
    if !settle(site, now) {
        settle_own(site, owner, now);
    }
    let owner = owner.borrowed().into_owned();
    let held = site.value().and_then(|value| value.grant_of(&owner)).map(|grant| grant.fence());
    let left = site.here(|state, at| state.leave_queue(at, &owner, held));
    // What it had been granted goes to the next.
    if !settle(site, now) {
        settle_own(site, &owner, now);
    }
    left
}

/// Ends what an owner had been granted of the other locks, in the same command.
pub(crate) fn leave_others<B: Sites>(sites: &mut B, owner: &Owner<'_>, now: Now) {
    for number in settle_each(sites, now) {
        if let Some(site) = sites.lock(number) {
            settle_own(site, owner, now);
        }
    }
}
