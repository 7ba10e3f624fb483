//! When a lock is to be looked at though nobody asks.

use super::sessions;
use super::site::Site;
use crate::lock::{Deadline, Fence, Now};

/// Takes note of when the lease of a grant ends, so that a lapse is found when it happens.
pub(super) fn lease_moved<S: Site>(site: &mut S, fence: Fence, until: Deadline, now: Now) {
    let Deadline::At(last) = until else { return };
    if site.idle() {
        return;
    }
    site.here(|state, at| {
        if state.is_watched(at) {
            // The key expires after its last millisecond.
            state.alarm_at(at, last.saturating_add(1));
        }
        if state.session(at, fence).is_some_and(|session| last < session.renew_at) {
            state.renew_by(at, sessions::look_again(until.left(now.millis()), now.millis()));
        }
    });
}

/// The same for the lease that ends first. Of several, each is looked at: a session beside them sees to its own only.
pub(super) fn look_when_one_ends<S: Site>(site: &mut S) {
    let first = site.value().map(|value| (value.is_one(), value.first_end(site.deadline())));
    if let Some((is_one, Deadline::At(last))) = first
        && !site.idle()
    {
        site.here(|state, at| {
            if !is_one || state.is_watched(at) {
                state.alarm_at(at, last.saturating_add(1));
            }
        });
    }
}
