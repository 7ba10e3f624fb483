//! `LOCK.LEAVE`: an owner gives up its place.

use super::lock_id::LockId;
use super::step::{Env, Site, settle, step};
use crate::lock::{Grant, Owner};

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
