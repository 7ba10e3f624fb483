//! Releases, and ends of grants for `LOCK.BREAK`.

use super::grants::LockEvent;
use super::step::{Env, Site, step};
use crate::lock::{self, Deadline, Grant, GrantChange, NotHeld, Owner, Released, Value};

#[derive(Clone, Copy, Debug)]
pub struct ReleaseRequest<'a> {
    pub owner: &'a Owner<'a>,
    /// If there is a fence, only the grant with this fence may be released.
    pub fence: Option<u64>,
    /// Whether all holds are released (`ALL`), instead of one.
    pub all: bool,
}

/// Most releases: whether it ends the only grant of a lock of which nothing is known.
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
    step(env, site, |env, site| site.release(env, given))
}

impl Site<'_> {
    fn release<C: Copy>(&mut self, env: &mut Env<'_, C>, given: ReleaseRequest<'_>) -> Result<u32, NotHeld> {
        let ReleaseRequest { owner, fence, all } = given;
        self.end_own(env, owner);
        let grants = &*self.grants;
        let grant = grants.grant_of(owner).ok_or_else(|| NotHeld::without_grant(grants.value.is_some()))?;
        let (its, released) = (grant.fence(), lock::decide_release(grant, fence, all)?);
        match released {
            Released::Kept { holds } => {
                let until = grants.with_fence(its).map_or(Deadline::Never, |held| held.deadline);
                self.update(env.now, its, GrantChange::holds(holds), until);
                Ok(holds)
            }
            Released::Ended => {
                self.end(env, its, LockEvent::Released);
                Ok(0)
            }
        }
    }
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
