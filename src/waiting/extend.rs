//! An extension, of one lock or of several.

use super::access::{Caller, LockAccess, LockEvent, LocksAccess, Refusal, SingleLock};
use super::confirm::hold_answer;
use super::join::{Outcome, block};
use super::leases::lease_moved;
use super::settle::{settle, settle_each, settle_own};
use super::table::{Answer, Arrival, Confirm, WaitKind};
use crate::lock::{self, AcquireRequest, Deadline, Fence, Got, Millis, Now, Owner, Room};

/// A request to set the lease of a grant.
struct Extension {
    fence: Fence,
    holds: u32,
    room: Room,
    until: Deadline,
}

/// An extension that is asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ExtendRequest<'a> {
    pub(crate) owner: &'a Owner<'a>,
    /// The one grant that is meant.
    pub(crate) fence: Option<u64>,
    pub(crate) lease: Millis,
    /// How many replicas have to confirm it before the client is told.
    pub(crate) confirm: Option<Confirm>,
}

/// Sets the lease to that long from now: its end.
pub(crate) fn extend<S: LockAccess>(
    lock: &mut S,
    caller: &mut impl Caller<S>,
    longer: &ExtendRequest<'_>,
    now: Now,
) -> Result<Outcome<Deadline>, Refusal> {
    if longer.confirm.is_some() {
        return extend_all(&mut SingleLock(lock), caller, longer, now);
    }
    if !settle(lock, now) {
        settle_own(lock, longer.owner, now);
    }
    let extension = may_extend(lock, longer, now)?;
    let until = extension.until;
    set(lock, extension, now);
    Ok(Outcome::Granted(until))
}

/// Sets the leases of all these locks to that long from now, or of none: the end of the one that ends first.
pub(crate) fn extend_all<B: LocksAccess>(
    locks: &mut B,
    caller: &mut impl Caller<B::One>,
    longer: &ExtendRequest<'_>,
    now: Now,
) -> Result<Outcome<Deadline>, Refusal> {
    for number in settle_each(locks, now) {
        if let Some(lock) = locks.lock(number) {
            settle_own(lock, longer.owner, now);
        }
    }
    let mut extensions = Vec::with_capacity(locks.count());
    for number in 0..locks.count() {
        let Some(lock) = locks.lock(number) else { break };
        extensions.push(may_extend(lock, longer, now)?);
    }
    let blocked = match longer.confirm {
        Some(_) => Some(block(locks, caller).ok_or(Refusal::NotHeld)?),
        None => None,
    };
    let got: Vec<Got> = extensions.iter().map(Extension::got).collect();
    let until = extensions.iter().map(|extension| extension.until).min().unwrap_or(Deadline::Never);
    for (number, extension) in extensions.into_iter().enumerate() {
        if let Some(lock) = locks.lock(number) {
            set(lock, extension, now);
        }
    }
    let Some((request, client)) = blocked else { return Ok(Outcome::Granted(until)) };
    let ExtendRequest { owner, lease, confirm, .. } = *longer;
    let owner = owner.borrowed().into_owned();
    let ask = AcquireRequest {
        owner,
        lease,
        max_hold: None,
        once: true,
        session: false,
        room: Room::ONE,
        slot: None,
        label: None,
    };
    let (way, client_id) = (WaitKind::Blocked(client), caller.id());
    let arrival = Arrival { ask, way, client_id, since: now.micros, timeout: 0, confirm };
    hold_answer(locks, request, arrival, &got, Answer::Extended { until });
    Ok(Outcome::Waits)
}

impl Extension {
    fn got(&self) -> Got {
        Got { fence: self.fence, holds: self.holds, slot: None }
    }
}

/// Whether the lease may be set to that long from now. Nothing has been done yet.
fn may_extend<S: LockAccess>(
    lock: &mut S,
    longer: &ExtendRequest<'_>,
    now: Now,
) -> Result<Extension, Refusal> {
    let ExtendRequest { owner, fence, lease, .. } = *longer;
    let limits = lock.limits();
    let (held, _) = lock.seen_by(owner);
    let until = lock::extend(held, fence, lease, limits, now.start).ok_or(Refusal::NotHeld)?;
    if !limits.lengthen {
        return Err(Refusal::GraceOfLeases(lock.grace().leases));
    }
    let Some(grant) = held.map(|held| held.grant) else { return Err(Refusal::NotHeld) };
    let (fence, holds, room) = (grant.fence(), grant.holds(), grant.room());
    // An upgrade may be lost, and its owner believe to be alone: it has to say what it wants, by asking again.
    if !room.is_exclusive()
        && let grace @ 1.. = lock.grace().grants
    {
        return Err(Refusal::GraceOfLeases(grace));
    }
    Ok(Extension { fence, holds, room, until })
}

fn set<S: LockAccess>(lock: &mut S, extension: Extension, now: Now) {
    let Extension { fence, holds, room, until } = extension;
    lock.update(fence, holds, room, until);
    if !lock.idle() {
        // An owner that extends its grant knows of one hold at least.
        lock.here(|table, at| table.share_one_hold(at, fence, holds));
    }
    lease_moved(lock, fence, until, now);
    lock.note(LockEvent::Extended);
}
