//! An owner that waits without being blocked gives up its place.

use super::settle::settle;
use super::site::Site;
use crate::lock::{Now, Owner};

/// Gives up the owner's place in the queue, or a grant that it has not claimed; whether there was such.
pub(crate) fn leave<S: Site>(site: &mut S, owner: &Owner<'_>, now: Now) -> bool {
    if site.idle() {
        return false;
    }
    settle(site, now);
    let owner = owner.borrowed().into_owned();
    let held = site.value().and_then(|value| value.grant_of(&owner)).map(|grant| grant.fence());
    let left = site.here(|state, at| state.leave_queue(at, &owner, held));
    // What it had been granted goes to the next.
    settle(site, now);
    left
}
