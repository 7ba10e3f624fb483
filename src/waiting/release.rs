//! A release, and an operator's break.

use super::hand_over::{pass_on, pass_on_all};
use super::sessions;
use super::settle::{settle, settle_own};
use super::site::{Note, Refusal, Site};
use crate::lock::{self, Grant, Now, Owner, Released, Value};

/// Gives back one hold, or all: the holds left. `now` is asked for only where it is needed: reading the time takes longer
/// than the rest of a release.
pub(crate) fn release<S: Site>(
    site: &mut S,
    owner: &Owner<'_>,
    fence: Option<u64>,
    all: bool,
    now: impl Fn() -> Now,
) -> Result<u32, Refusal> {
    if !look_first(site, &now) {
        settle_own(site, owner, now());
    }
    let grant = site.value().and_then(|value| value.grant_of(owner));
    let released = lock::release(grant, fence, all).ok_or(Refusal::NotHeld)?;
    if released == Released::Ended && site.value().is_some_and(Value::is_one) && site.idle() {
        // As most are.
        site.note(Note::Released);
        site.free();
        return Ok(0);
    }
    let grant = site.value().and_then(|value| value.grant_of(owner)).ok_or(Refusal::NotHeld)?;
    let (fence, room) = (grant.fence(), grant.room());
    match released {
        Released::Kept { holds } => {
            let until = site.with_fence(fence).map(|held| held.deadline).ok_or(Refusal::NotHeld)?;
            site.update(fence, holds, room, until);
            Ok(holds)
        }
        Released::Ended => {
            pass_on(site, fence, Note::Released, now);
            Ok(0)
        }
    }
}

/// Ends the grant with that fence, or all, whoever holds them: those grants.
pub(crate) fn break_<S: Site>(site: &mut S, fence: Option<u64>, now: impl Fn() -> Now) -> Vec<Grant> {
    look_first(site, &now);
    let until = site.deadline();
    let Some(value) = site.value() else { return Vec::new() };
    let meant = |grant: &&Grant| fence.is_none_or(|fence| grant.fence().get() == fence);
    let broken: Vec<Grant> = value.all(until).map(|held| held.grant).filter(meant).cloned().collect();
    match broken.as_slice() {
        [] => (),
        [grant] => pass_on(site, grant.fence(), Note::Broken, now),
        _ => pass_on_all(site, Note::Broken, now),
    }
    broken
}

/// What has lapsed of several grants is not theirs any more who come now. And a lock that looks free may be kept alive by a
/// connection: see `sessions::outlives`. Whoever is next gets that by an alarm: the grant of somebody else is not what the client
/// meant.
///
/// Whether all of that was done.
#[inline(always)]
fn look_first<S: Site>(site: &mut S, now: impl Fn() -> Now) -> bool {
    match site.value().map(Value::is_one) {
        Some(false) => return settle(site, now()),
        None if !site.idle() => sessions::revive(site, now()),
        _ => (),
    }
    true
}
