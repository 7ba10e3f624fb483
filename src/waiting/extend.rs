//! An extension.

use super::alarms::lease_moved;
use super::settle::settle;
use super::site::{Note, Refusal, Site};
use crate::lock::{self, Deadline, Millis, Now, Owner};

/// Sets the lease to that long from now: its end.
pub(crate) fn extend<S: Site>(
    site: &mut S,
    owner: &Owner<'_>,
    fence: Option<u64>,
    lease: Millis,
    now: Now,
) -> Result<Deadline, Refusal> {
    settle(site, now);
    let limits = site.limits();
    let (held, _) = site.seen_by(owner);
    let until = lock::extend(held, fence, lease, limits, now.start).ok_or(Refusal::NotHeld)?;
    if !limits.lengthen {
        return Err(Refusal::GraceOfLeases(site.grace().leases));
    }
    let Some(grant) = held.map(|held| held.grant) else { return Err(Refusal::NotHeld) };
    let (fence, holds, room) = (grant.fence(), grant.holds(), grant.room());
    site.update(fence, holds, room, until);
    if !site.idle() {
        // Who extends it knows of it.
        site.here(|state, at| state.share_hold(at, fence));
    }
    lease_moved(site, fence, until, now);
    site.note(Note::Extended);
    Ok(until)
}
