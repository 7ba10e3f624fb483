//! Extends the leases of one lock or several.

use super::access::{Caller, LockAccess, LockEvent, Refusal};
use super::confirm::hold_answer;
use super::join::{Outcome, block};
use super::lapse::lease_moved;
use super::lock_set::LocksAccess;
use super::settle::settle_for;
use super::table::{Answer, Arrival, Confirm, WaitKind};
use crate::lock::{self, AcquireRequest, Deadline, Got, GrantChange, Millis, NotHeld, Now, Owner};

#[derive(Clone, Copy, Debug)]
pub struct ExtendRequest<'a> {
    pub owner: &'a Owner<'a>,
    /// If there is a fence, only the grant with this fence may be extended.
    pub fence: Option<u64>,
    pub lease: Millis,
    /// How many replicas have to confirm the extension before the client is told, and in what time; `None` without `SYNC`.
    pub confirm: Option<Confirm>,
}

/// Sets the lease of each lock to the requested length, counted from now. If one lease can't be set, sets none. Returns the end of the
/// lease that ends first.
pub fn extend<B: LocksAccess>(
    locks: &mut B,
    caller: &mut impl Caller<B::One>,
    longer: &ExtendRequest<'_>,
    now: Now,
) -> Result<Outcome<Deadline>, Refusal> {
    locks.each(|lock| settle_for(lock, longer.owner, now));
    let extensions = locks.try_each(|lock| may_extend(lock, longer, B::SEVERAL, now))?;
    let blocked = match longer.confirm {
        None => None,
        Some(_) => match block(locks, caller) {
            // The client can't be blocked, and so can't be told later. So nothing is extended.
            None => return Ok(Outcome::Taken),
            blocked => blocked,
        },
    };
    let first_deadline = B::all(&extensions).iter().map(|(_, until)| *until).min();
    let until = first_deadline.unwrap_or(Deadline::Never);
    locks.with(&extensions, |lock, (got, until)| set(lock, *got, *until, now));
    let Some((request, client)) = blocked else { return Ok(Outcome::Granted(until)) };
    let ExtendRequest { owner, lease, confirm, .. } = *longer;
    let owner = owner.borrowed().into_owned();
    let ask = AcquireRequest { once: true, ..AcquireRequest::new(owner, lease) };
    let (way, client_id) = (WaitKind::Blocked(client), caller.id());
    let arrival = Arrival { ask, way, client_id, since: now.micros, timeout: 0, confirm };
    let got = locks.with(&extensions, |_, (got, _)| *got);
    hold_answer(locks, request, arrival, &got, Answer::Extended { until });
    Ok(Outcome::Waits)
}

/// Decides an extension, and changes nothing. Returns the grant and its new deadline, or an error that says why the lease can't be set. If
/// there are `several` locks, the error names the lock that is not held.
fn may_extend<S: LockAccess>(
    lock: &mut S,
    longer: &ExtendRequest<'_>,
    several: bool,
    now: Now,
) -> Result<(Got, Deadline), Refusal> {
    let ExtendRequest { owner, fence, lease, .. } = *longer;
    let limits = lock.limits();
    let refuse = |why| Refusal::NotHeld(why, several.then(|| lock.key().as_ref().into()));
    let held = lock.seen_by(owner).0.ok_or_else(|| refuse(NotHeld::without_grant(lock.value().is_some())))?;
    let until = lock::decide_extend(held, fence, lease, limits, now.start).map_err(refuse)?;
    let got = Got { fence: held.grant.fence(), holds: held.grant.holds(), slot: None };
    let room = held.grant.room();
    if !limits.may_lengthen {
        return Err(Refusal::GraceOfLeases(lock.grace().leases));
    }
    // A failover may have lost an upgrade (a re-entry after which the grant allows fewer holders), so the owner may believe that it is the
    // only holder. The owner has to send the acquire again, which says how many holders the owner expects.
    if !room.is_exclusive()
        && let grace @ 1.. = lock.grace().grants
    {
        return Err(Refusal::GraceOfLeases(grace));
    }
    Ok((got, until))
}

fn set<S: LockAccess>(lock: &mut S, Got { fence, holds, .. }: Got, until: Deadline, now: Now) {
    lock.update(fence, GrantChange::NONE, until);
    if !lock.idle() {
        // An owner that extends its grant knows that it holds the lock. So one hold must stay, even if all clients of this owner that have
        // not been told of their holds yet go away.
        lock.here(|table, at| {
            table.share_one_hold(at, fence, holds);
            table.shorten_answers(at, fence, until);
        });
    }
    lease_moved(lock, fence, until, now);
    lock.note(LockEvent::Extended);
}
