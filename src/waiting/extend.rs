//! An extension.

use super::alarms::lease_moved;
use super::settle::settle;
use super::site::{Note, Refusal, Site};
use crate::lock::{self, Deadline, Fence, Millis, Now, Owner, Room};

/// What a lease is to be set to.
pub(super) struct Extension {
    fence: Fence,
    holds: u32,
    room: Room,
    pub(super) until: Deadline,
}

/// Sets the lease to that long from now: its end.
pub(crate) fn extend<S: Site>(
    site: &mut S,
    owner: &Owner<'_>,
    fence: Option<u64>,
    lease: Millis,
    now: Now,
) -> Result<Deadline, Refusal> {
    settle(site, now);
    let extension = may_extend(site, owner, fence, lease, now)?;
    let until = extension.until;
    set(site, extension, now);
    Ok(until)
}

/// Whether the lease may be set to that long from now. Nothing has been done yet.
pub(super) fn may_extend<S: Site>(
    site: &mut S,
    owner: &Owner<'_>,
    fence: Option<u64>,
    lease: Millis,
    now: Now,
) -> Result<Extension, Refusal> {
    let limits = site.limits();
    let (held, _) = site.seen_by(owner);
    let until = lock::extend(held, fence, lease, limits, now.start).ok_or(Refusal::NotHeld)?;
    if !limits.lengthen {
        return Err(Refusal::GraceOfLeases(site.grace().leases));
    }
    let Some(grant) = held.map(|held| held.grant) else { return Err(Refusal::NotHeld) };
    let (fence, holds, room) = (grant.fence(), grant.holds(), grant.room());
    // An upgrade may be lost, and its owner believe to be alone: it has to say what it wants, by asking again.
    if !room.is_exclusive()
        && let grace @ 1.. = site.grace().grants
    {
        return Err(Refusal::GraceOfLeases(grace));
    }
    Ok(Extension { fence, holds, room, until })
}

pub(super) fn set<S: Site>(site: &mut S, extension: Extension, now: Now) {
    let Extension { fence, holds, room, until } = extension;
    site.update(fence, holds, room, until);
    if !site.idle() {
        // Who extends it knows of it.
        site.here(|state, at| state.share_hold(at, fence));
    }
    lease_moved(site, fence, until, now);
    site.note(Note::Extended);
}
