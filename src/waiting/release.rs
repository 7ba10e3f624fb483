//! A release, and an operator's break.

use super::hand_over::{end_with_others, grant_heads, pass_on, pass_on_all};
use super::sessions;
use super::settle::{end_lapsed, settle, settle_own};
use super::site::{Note, Refusal, Site};
use crate::lock::{self, Fence, Grant, Now, Owner, Released, Value};

/// Gives back one hold, or all: the holds left. `now` is asked for only where it is needed: reading the time takes longer
/// than the rest of a release.
pub(crate) fn release<S: Site>(
    site: &mut S,
    owner: &Owner<'_>,
    fence: Option<u64>,
    all: bool,
    now: impl Fn() -> Now,
) -> Result<u32, Refusal> {
    match site.value().map(Value::is_one) {
        Some(false) => return release_among(site, owner, fence, all, now()),
        None => revive(site, &now),
        Some(true) => (),
    }
    let grant = site.value().and_then(|value| value.grant_of(owner));
    let released = lock::release(grant, fence, all).ok_or(Refusal::NotHeld)?;
    if released == Released::Ended && site.value().is_some_and(Value::is_one) && site.idle() {
        // As most are.
        site.note(Note::Released);
        site.free();
        return Ok(0);
    }
    give_back(site, owner, released, |site, fence| pass_on(site, fence, Note::Released, now))
}

/// The same for one of several grants. What is over of the others does not count any more; but nobody is given their room before the
/// owner's own grant is as this leaves it. So what one of its clients gives back is not what another one that waited is given just then.
#[inline(never)]
fn release_among<S: Site>(
    site: &mut S,
    owner: &Owner<'_>,
    fence: Option<u64>,
    all: bool,
    now: Now,
) -> Result<u32, Refusal> {
    end_lapsed(site, now);
    let holds = settle_own(site, owner, now);
    let grant = site.value().and_then(|value| value.grant_of(owner)).filter(|_| holds);
    let released = lock::release(grant, fence, all).ok_or(Refusal::NotHeld);
    let end = |site: &mut S, fence| end_with_others(site, fence, Note::Released, now);
    let left = released.and_then(|released| give_back(site, owner, released, end));
    // Where the budget is used up, nothing is handed over by that.
    if settle(site, now) && matches!(left, Ok(0)) {
        grant_heads(site, false, now);
    }
    left
}

/// Does to an owner's grant what a release comes to: the holds left.
#[inline(always)]
fn give_back<S: Site>(
    site: &mut S,
    owner: &Owner<'_>,
    released: Released,
    end: impl FnOnce(&mut S, Fence),
) -> Result<u32, Refusal> {
    let grant = site.value().and_then(|value| value.grant_of(owner)).ok_or(Refusal::NotHeld)?;
    let (fence, room) = (grant.fence(), grant.room());
    match released {
        Released::Kept { holds } => {
            let until = site.with_fence(fence).map(|held| held.deadline).ok_or(Refusal::NotHeld)?;
            site.update(fence, holds, room, until);
            Ok(holds)
        }
        Released::Ended => {
            end(site, fence);
            Ok(0)
        }
    }
}

/// Ends the grant with that fence, or all, whoever holds them: those grants.
pub(crate) fn break_<S: Site>(site: &mut S, fence: Option<u64>, now: impl Fn() -> Now) -> Vec<Grant> {
    match site.value().map(Value::is_one) {
        // What has lapsed is not theirs any more who come now.
        Some(false) => _ = settle(site, now()),
        None => revive(site, &now),
        Some(true) => (),
    }
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

/// A lock that looks free may be kept alive by a connection: see `sessions::outlives`. Whoever is next gets that by a timer: the grant
/// of somebody else is not what the client meant.
#[inline(always)]
fn revive<S: Site>(site: &mut S, now: impl Fn() -> Now) {
    if !site.idle() {
        sessions::revive(site, now());
    }
}
