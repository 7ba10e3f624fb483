//! Sets the ends of leases.

use super::acquire::{Outcome, Refusal};
use super::grants::LockEvent;
use super::lock_state::Record;
use super::replication::Confirm;
use super::step::{Env, Site, step_on_all};
use super::sync::tell_when_confirmed;
use super::waiter::{Answer, Caller};
use crate::lock::{self, AcquireRequest, Deadline, Fence, Got, GrantChange, Millis, NotHeld, Owner};

#[derive(Clone, Copy, Debug)]
pub struct ExtendRequest<'a> {
    pub owner: &'a Owner<'a>,
    /// If there is a fence, only the grant with this fence may be extended.
    pub fence: Option<u64>,
    pub lease: Millis,
    /// How many replicas have to confirm the extension before the client is told, and in what time; `None` without `SYNC`.
    pub confirm: Option<Confirm>,
}

/// Sets the end of the owner's lease of each lock, or of none.
pub fn extend<C: Copy>(
    env: &mut Env<'_, C>,
    sites: &mut [Site<'_>],
    several: bool,
    caller: &Caller,
    longer: &ExtendRequest<'_>,
) -> Result<Outcome, Refusal> {
    step_on_all(env, sites, |env, sites| {
        let (mut all, mut first) = (Vec::with_capacity(sites.len()), Deadline::Never);
        for site in sites.iter_mut() {
            site.end_own(env, longer.owner);
            site.serve(env);
            let (held, is_held) = (site.grants.seen_by(longer.owner).0, site.grants.value.is_some());
            let held = held.ok_or_else(|| NotHeld::without_grant(is_held));
            let until = held.and_then(|held| {
                let until = lock::decide_extend(held, longer.fence, longer.lease, env.limits, env.now.start)?;
                Ok((held.grant.fence(), held.grant.holds(), until))
            });
            let key = || several.then(|| site.at.key.into());
            let extension = until.map_err(|why| Refusal::NotHeld(why, key()))?;
            // A failover may have lost an upgrade, after which the owner believes that it is the only holder.
            let is_sure = held.is_ok_and(|held| held.grant.room().is_exclusive());
            match (env.limits.may_lengthen, env.grace.grants) {
                (false, _) => return Err(Refusal::GraceOfLeases(env.grace.leases)),
                (_, grace @ 1..) if !is_sure => return Err(Refusal::GraceOfLeases(grace)),
                _ => (),
            }
            first = first.min(extension.2);
            all.push(extension);
        }
        if longer.confirm.is_some() && !caller.may_block {
            return Ok(Outcome::Taken);
        }
        for (site, (fence, holds, until)) in sites.iter_mut().zip(all) {
            site.got = Some(Got { fence, holds, slot: None });
            site.extend(env, fence, holds, until);
        }
        let Some(confirm) = longer.confirm else { return Ok(Outcome::Granted(first)) };
        let (owner, lease) = (longer.owner.borrowed().into_owned(), longer.lease);
        let ask = AcquireRequest { once: true, ..AcquireRequest::new(owner, lease) };
        let answer = Answer::Extended { until: first };
        Ok(Outcome::Waits(tell_when_confirmed(env, sites, several, caller, ask, confirm, answer)))
    })
}

impl Site<'_> {
    fn extend<C: Copy>(&mut self, env: &mut Env<'_, C>, fence: Fence, holds: u32, until: Deadline) {
        self.update(env.now, fence, GrantChange::NONE, until);
        if let Some(record) = self.lock.record(fence) {
            env.table.shorten_answers(record, until, env.now);
        }
        env.table.claim(&mut self.lock, fence);
        // The owner knows that it holds the lock. So one hold stays even if all clients that have not been told of their holds go away.
        self.lock.change(fence, |record: &mut Record| {
            let mut revocable = record.pending.iter_mut().filter(|hold| hold.revocable);
            let (first, more) = (revocable.next(), revocable.count());
            if let Some(first) = first.filter(|_| more + 1 >= holds as usize) {
                first.revocable = false;
            }
        });
        self.note(LockEvent::Extended);
    }
}
