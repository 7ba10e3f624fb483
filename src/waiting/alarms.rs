//! When a lock is to be looked at though nobody asks.

use super::sessions;
use super::site::Site;
use crate::lock::{Deadline, Now};

/// Takes note of when the lease of a lock ends, so that a lapse is found when it happens.
pub(super) fn lease_moved<S: Site>(site: &mut S, until: Deadline, now: Now) {
    let Deadline::At(last) = until else { return };
    if site.idle() {
        return;
    }
    site.here(|state, at| {
        let (waits, session) = state.watched(at);
        if waits {
            // The key expires after its last millisecond.
            state.alarm_at(at, last.saturating_add(1));
        }
        if session.is_some_and(|session| last < session.renew_at) {
            state.renew_by(at, sessions::look_again(until.left(now.millis()), now.millis()));
        }
    });
}
