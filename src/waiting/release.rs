//! A release, and an operator's break.

use super::hand_over::pass_on;
use super::sessions;
use super::site::{Note, Refusal, Site};
use crate::lock::{self, Grant, Now, Owner, Released};

/// Gives back one hold, or all: the holds left. `now` is asked for only where it is needed: reading the time takes longer
/// than the rest of a release.
pub(crate) fn release<S: Site>(
    site: &mut S,
    owner: &Owner<'_>,
    fence: Option<u64>,
    all: bool,
    now: impl Fn() -> Now,
) -> Result<u32, Refusal> {
    revive_if_lapsed(site, &now);
    match lock::release(site.grant(), owner, fence, all).ok_or(Refusal::NotHeld)? {
        Released::Kept { holds } => {
            let deadline = site.deadline();
            site.update(holds, deadline);
            Ok(holds)
        }
        Released::Ended => {
            pass_on(site, Note::Released, now);
            Ok(0)
        }
    }
}

/// Ends the grant, whoever holds it: the grant, where there was one (with that fence).
pub(crate) fn break_<S: Site>(site: &mut S, fence: Option<u64>, now: impl Fn() -> Now) -> Option<Grant> {
    revive_if_lapsed(site, &now);
    let grant = site.grant().filter(|grant| lock::may_break(Some(grant), fence))?.clone();
    pass_on(site, Note::Broken, now);
    Some(grant)
}

/// A lock that looks free may be kept alive by a connection: see `sessions::outlives`. Whoever is next gets it by an alarm: the
/// grant of another is not what the client meant.
fn revive_if_lapsed<S: Site>(site: &mut S, now: impl Fn() -> Now) {
    if site.grant().is_none() && !site.idle() {
        sessions::revive(site, now());
    }
}
