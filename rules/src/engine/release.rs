//! Releases, and ends of grants for `LOCK.BREAK`.

use super::held::Effect;
use super::step::{Env, Site, step};
use crate::lock::{self, Deadline, Grant, GrantChange, NotHeld, Released, Value};
use crate::waiting::{LockEvent, ReleaseRequest};

/// Releases one hold or all. Returns how many are left.
#[inline(always)]
pub fn release<C: Copy>(
    env: &mut Env<'_, C>,
    site: &mut Site<'_>,
    given: ReleaseRequest<'_>,
) -> Result<u32, NotHeld> {
    if let Some(Value::One(grant)) = &site.grants.value
        && env.table.get(site.at).is_none()
        && grant.owner() == *given.owner
        && lock::decide_release(grant, given.fence, given.all)? == Released::Ended
    {
        // Most releases.
        site.grants.value = None;
        site.effects.extend([Effect::Event(LockEvent::Released), Effect::Free]);
        return Ok(0);
    }
    step(env, site, |env, site| {
        let ReleaseRequest { owner, fence, all } = given;
        site.settle_own(env, owner);
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
