//! Releases, ends of grants for `LOCK.BREAK`, and places that their owners give up (`LOCK.LEAVE`).

use super::grants::LockEvent;
use super::lock_id::LockId;
use super::step::{Env, Site, settle, step};
use crate::lock::{self, Deadline, Grant, GrantChange, NotHeld, Owner, Released, Value};

#[derive(Clone, Copy, Debug)]
pub struct ReleaseRequest<'a> {
    pub owner: &'a Owner<'a>,
    /// If there is a fence, only the grant with this fence may be released.
    pub fence: Option<u64>,
    /// Whether all holds are released (`ALL`), instead of one.
    pub all: bool,
}

/// Whether a release ends the only grant of its lock. If so, and if the table knows nothing of the lock, the lock simply becomes free.
#[inline(always)]
pub fn frees(value: Option<&Value>, given: ReleaseRequest<'_>) -> Result<bool, NotHeld> {
    match value {
        Some(Value::One(grant)) if grant.owner() == *given.owner => {
            Ok(lock::decide_release(grant, given.fence, given.all)? == Released::Ended)
        }
        _ => Ok(false),
    }
}

/// Releases one hold or all. Returns how many are left.
pub fn release<C: Copy>(
    env: &mut Env<'_, C>,
    site: &mut Site<'_>,
    given: ReleaseRequest<'_>,
) -> Result<u32, NotHeld> {
    step(env, site, |env, site| {
        let ReleaseRequest { owner, fence, all } = given;
        site.end_own(env, owner);
        let grants = &*site.grants;
        let grant = grants.grant_of(owner).ok_or_else(|| NotHeld::without_grant(grants.value.is_some()))?;
        let (its, released) = (grant.fence(), lock::decide_release(grant, fence, all)?);
        match released {
            Released::Kept { holds } => {
                let until = grants.with_fence(its).map_or(Deadline::Never, |held| held.deadline);
                site.update(env.now, its, GrantChange::holds(holds), until);
                Ok(holds)
            }
            Released::Ended => {
                site.end(env, its, LockEvent::Released);
                Ok(0)
            }
        }
    })
}

/// Ends the grant with this fence, or all grants.
pub fn break_<C: Copy>(env: &mut Env<'_, C>, site: &mut Site<'_>, fence: Option<u64>) -> Vec<Grant> {
    step(env, site, |env, site| {
        let meant = |grant: &&Grant| fence.is_none_or(|fence| grant.fence().get() == fence);
        let broken: Vec<Grant> = site.grants.all().map(|held| held.grant).filter(meant).cloned().collect();
        broken.iter().for_each(|grant| site.end(env, grant.fence(), LockEvent::Broken));
        broken
    })
}

/// What an owner has given up.
#[derive(Debug, Default)]
pub struct GivenUp {
    /// Whether the owner gave up a place or an unclaimed grant.
    pub any: bool,
    /// The other locks of the request, if the owner gave up unclaimed grants of several locks. The caller settles these locks, too.
    pub others: Vec<LockId>,
}

/// Gives up the owner's last place in the queue, or the place whose grant it has not claimed.
pub fn leave<C: Copy>(env: &mut Env<'_, C>, site: &mut Site<'_>, owner: &Owner<'_>) -> GivenUp {
    let owner = owner.borrowed().into_owned();
    let place = step(env, site, |env, site| {
        site.end_own(env, &owner);
        site.serve(env);
        let is_its = |request: &_| {
            let waiter = env.table.waiters.get(request);
            waiter.is_some_and(|waiter| waiter.channel.is_some() && waiter.ask.owner == owner)
        };
        let queued = site.lock.queue.all_of(&owner).rev().find(is_its);
        let record = site.grants.grant_of(&owner).map(Grant::fence).and_then(|its| site.lock.record(its));
        let unclaimed = record.into_iter().flat_map(|record| &record.pending).filter(|hold| hold.to_claim);
        queued.or_else(|| unclaimed.map(|hold| hold.request).find(is_its))
    });
    let Some(request) = place else { return GivenUp::default() };
    let granted = env.table.granted(request).into_iter().map(|(id, _)| id);
    let others = granted.filter(|id: &LockId| id.db != site.at.db || *id.key != *site.at.key).collect();
    env.table.give_up(request);
    settle(env, site);
    GivenUp { any: true, others }
}
