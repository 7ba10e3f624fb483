//! Decides what a command does to a lock, from the lock's state, the command, the limits and the time. Nothing here changes the lock.

use std::sync::Arc;

use super::{Deadline, Extras, Fence, Grant, Millis, Now, Others, Owner, Room, Slot, SlotRequest};

/// A grant, and the end of its lease.
#[derive(Clone, Copy, Debug)]
pub struct Held<'a> {
    pub grant: &'a Grant,
    pub deadline: Deadline,
}

/// The owner's grant of one lock, after an acquire that succeeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(Hash))]
pub struct Got {
    pub fence: Fence,
    pub holds: u32,
    /// The number of the permit, if the owner asked with `LIMIT`.
    pub slot: Option<Slot>,
}

/// What an acquire asks for.
#[derive(Clone, Debug)]
#[cfg_attr(test, derive(PartialEq, Eq, Hash))]
pub struct AcquireRequest<'a> {
    pub owner: Owner<'a>,
    /// The length of the lease in ms.
    pub lease: Millis,
    /// Whether the owner, if it already holds the lock, gets no further hold (`ONCE`).
    pub once: bool,
    /// Whether the grant ends with the client's connection (`SESSION`).
    pub session: bool,
    /// The room of the grant: the number of holders that it allows, this owner included.
    pub room: Room,
    /// The slot that the owner asks for, if it asks with `LIMIT`.
    pub slot: Option<SlotRequest>,
    pub extras: Option<Arc<Extras>>,
}

impl<'a> AcquireRequest<'a> {
    /// Returns a request for an exclusive grant, without options.
    pub(crate) fn new(owner: Owner<'a>, lease: Millis) -> Self {
        Self { owner, lease, once: false, session: false, room: Room::ONE, slot: None, extras: None }
    }

    pub(crate) fn to_owned(&self) -> AcquireRequest<'static> {
        AcquireRequest { owner: self.owner.clone().into_owned(), extras: self.extras.clone(), ..*self }
    }

    /// Returns the greatest age in ms that a new grant may reach, if the request has `MAXHOLD`.
    #[inline]
    pub fn max_hold(&self) -> Option<Millis> {
        self.extras.as_ref()?.max_hold
    }

    /// Returns the label of the request, if it has a label. An empty label removes the grant's label.
    pub fn label(&self) -> Option<&[u8]> {
        self.extras.as_ref()?.label.as_deref()
    }

    /// Makes the grant for this request, with this fence, and with this slot if the request asks for a slot.
    #[inline(always)]
    pub(crate) fn grant(&self, fence: Fence, slot: Option<Slot>, now: Now) -> Grant {
        if self.room.is_exclusive() && self.extras.is_none() {
            return Grant::new(self.owner.borrowed(), fence, 1, None, now.millis());
        }
        self.rare_grant(fence, slot, now)
    }

    /// Makes a grant with room for other holders, or with extras (rare options). This function is not inlined, so that other grants do not
    /// pay for it.
    #[inline(never)]
    fn rare_grant(&self, fence: Fence, slot: Option<Slot>, now: Now) -> Grant {
        let extras = Extras::granted(&self.extras);
        let grant = Grant::new(self.owner.borrowed(), fence, 1, extras, now.millis());
        if self.room.is_exclusive() {
            return grant;
        }
        grant.with_room(self.room).with_slot(slot)
    }

    /// Checks whether the owner of `grant` can re-enter with this request. Returns an error if the grant has another slot than the
    /// requested slot, or a slot above `LIMIT`, or has no slot and allows fewer holders than the number of the requested slot.
    fn check_slot(&self, grant: &Grant) -> Result<(), ReentryError> {
        let is_another = match (self.slot, grant.slot()) {
            (Some(SlotRequest::This(asked)), Some(slot)) => asked != slot,
            (Some(SlotRequest::Least), Some(slot)) => match self.room.most() {
                Some(limit) if slot.get() > limit => {
                    return Err(ReentryError::SlotAboveLimit { slot, limit });
                }
                _ => false,
            },
            // A grant without a slot is `SHARED`, or an earlier version of the module made it. After the re-entry, the grant allows as many
            // holders as before, or as many as the request allows, if these are fewer. The requested slot must not be above this number.
            (Some(SlotRequest::This(asked)), None) => !asked.fits(grant.room().min(self.room)),
            (Some(SlotRequest::Least), None) | (None, _) => false,
        };
        if is_another { Err(ReentryError::OtherSlot) } else { Ok(()) }
    }

    /// Returns the end of the lease of a grant that is made now.
    pub(crate) fn new_deadline(&self, limits: Limits, now: Millis) -> Deadline {
        let lease = limits.max_hold.map_or(self.lease, |age| age.min(self.lease));
        let lease = self.max_hold().map_or(lease, |age| age.min(lease));
        Deadline::after(now, limits.allowed(lease))
    }
}

/// The limits that apply to all grants.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The longest lease in ms. An operator may have lowered this limit after a waiter or a session asked for its lease.
    pub max_lease: Millis,
    /// The greatest age in ms that any grant may reach. `None` means no limit.
    pub max_hold: Option<Millis>,
    /// How many ms the server may keep a lock's key after the lease has ended by the module's clock: 1 if the module rounds the start of a
    /// lease up to a whole millisecond (see `server::lease_start`), and else 0.
    pub expiry_slack: Millis,
    /// The most holders of one lock. 0 means any number.
    pub max_holders: u32,
    /// Whether the module may make running leases longer. The module must not while another server may be the primary without this server's
    /// knowledge.
    pub may_lengthen: bool,
}

impl Limits {
    /// Returns `lease` (in ms), or the longest allowed lease if `lease` is longer.
    pub(crate) fn allowed(self, lease: Millis) -> Millis {
        lease.min(self.max_lease)
    }
}

/// The result of an acquire. `slot` is the grant's slot, if the request asks for a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acquired {
    /// The request fits: the owner gets a new grant with one hold, until the deadline.
    Granted { slot: Option<Slot>, deadline: Deadline },
    /// The owner re-enters: its grant now has `holds` holds, and lasts until the deadline. With `ONCE`, the number of holds stays the same.
    Reentered { holds: u32, slot: Option<Slot>, deadline: Deadline },
    /// The owner re-enters, and its grant is upgraded: it gets its first slot, or from now on allows fewer holders than before, but not
    /// fewer than there are.
    Upgraded { holds: u32, slot: Option<Slot>, deadline: Deadline },
    /// The owner holds nothing, and its request does not fit beside the other holders.
    Refused,
    /// The owner holds the lock, but asks for a grant that allows fewer holders than there are, or for a slot that another holder has.
    UpgradeRefused,
}

/// Why a re-entry is impossible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(Hash))]
pub enum ReentryError {
    /// The grant has the greatest number of holds, 2^32 - 1.
    TooManyHolds,
    /// The owner's grant has another slot than the requested slot, or has no slot and allows fewer holders than the number of the requested
    /// slot.
    OtherSlot,
    /// The owner's grant has a slot above the `LIMIT` of the request.
    SlotAboveLimit { slot: Slot, limit: u32 },
}

/// Decides what an acquire does, from the grant that the owner already has (`held`) and the grants of other owners.
#[inline(always)]
pub fn decide_acquire(
    held: Option<Held<'_>>,
    others: Others<'_>,
    ask: &AcquireRequest<'_>,
    limits: Limits,
    now: Millis,
) -> Result<Acquired, ReentryError> {
    if held.is_none() && others.count == 0 {
        let slot = ask.slot.map(SlotRequest::alone);
        return Ok(Acquired::Granted { slot, deadline: ask.new_deadline(limits, now) });
    }
    acquire_held(held, others, ask, limits, now)
}

/// Decides what an acquire does to a lock that somebody holds. This function is not inlined, so that a free lock does not pay for it.
#[inline(never)]
fn acquire_held(
    held: Option<Held<'_>>,
    others: Others<'_>,
    ask: &AcquireRequest<'_>,
    limits: Limits,
    now: Millis,
) -> Result<Acquired, ReentryError> {
    let Some(held) = held else {
        let most = Room::limit(limits.max_holders).unwrap_or(Room::ANY);
        let slot = ask.slot.map(|slot| slot.find(others.slots));
        return Ok(match slot != Some(None) && others.have_room_for(ask.room.min(most)) {
            true => Acquired::Granted { slot: slot.flatten(), deadline: ask.new_deadline(limits, now) },
            false => Acquired::Refused,
        });
    };
    ask.check_slot(held.grant)?;
    let its_own = held.grant.slot();
    let slot = ask.slot.map(|slot| its_own.or_else(|| slot.find(others.slots)));
    // If the grant gets its first slot, this counts as an upgrade, because here, too, another holder can be the reason to refuse it: one
    // that has the slot.
    let upgrade = ask.room < held.grant.room() || slot.is_some() && its_own.is_none();
    if upgrade && (slot == Some(None) || !others.have_room_for(ask.room)) {
        return Ok(Acquired::UpgradeRefused);
    }
    let slot = slot.flatten();
    let holds = held.grant.holds();
    let holds = if ask.once { holds } else { holds.checked_add(1).ok_or(ReentryError::TooManyHolds)? };
    let deadline = lengthen(held, ask.lease, limits, now);
    Ok(if upgrade {
        Acquired::Upgraded { holds, slot, deadline }
    } else {
        Acquired::Reentered { holds, slot, deadline }
    })
}

/// Returns the new deadline of a grant after a re-entry or the renewal of a session: `lease` ms from now, within the grant's limits, and
/// never before the present deadline. If the module must not make leases longer now, returns the present deadline.
pub fn lengthen(held: Held<'_>, lease: Millis, limits: Limits, now: Millis) -> Deadline {
    if !limits.may_lengthen {
        return held.deadline;
    }
    held.deadline.max(lease_from(now, lease, held.grant, limits))
}

/// Returns the end of a lease of `lease` ms that begins now, within the grant's limits.
fn lease_from(now: Millis, lease: Millis, grant: &Grant, limits: Limits) -> Deadline {
    Deadline::after(now, limits.allowed(lease)).min(grant.limit(limits.max_hold))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Released {
    /// The grant goes on with this many holds.
    Kept { holds: u32 },
    /// The last hold was released.
    Ended,
}

/// Why an owner can't release or extend its grant: it has none, or not the one that it means.
///
/// With a `u32`, a release that succeeds need not pack its result into bytes.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotHeld {
    /// Nobody holds the lock.
    Free,
    /// Only other owners hold the lock.
    OtherOwner,
    /// The owner's grant has another fence than the request.
    OtherFence,
    /// The owner's grant has reached its maximum age.
    TooOld,
    /// The grant ended while replicas were asked to confirm its extension.
    Unconfirmed,
}

impl NotHeld {
    /// Returns the reason for an owner that has no grant of a lock.
    pub(crate) fn without_grant(is_held: bool) -> Self {
        if is_held { Self::OtherOwner } else { Self::Free }
    }
}

/// Decides a release of one hold, or of all holds. Returns an error if the grant has another fence.
pub fn decide_release(grant: &Grant, fence: Option<u64>, all: bool) -> Result<Released, NotHeld> {
    check_fence(grant, fence)?;
    Ok(if all { Released::Ended } else { release_holds(grant, 1) })
}

/// Decides what happens to a grant when `holds` of its holds are released.
pub fn release_holds(grant: &Grant, holds: u32) -> Released {
    match grant.holds().saturating_sub(holds) {
        0 => Released::Ended,
        holds => Released::Kept { holds },
    }
}

/// Decides an extension, and returns the new deadline. Returns an error if the grant has another fence, or has reached its maximum age.
///
/// When a grant reaches its maximum age, the server may keep the key for another millisecond. Meanwhile the owner still holds the lock, so
/// an extension that does not shorten the lease succeeds.
pub fn decide_extend(
    held: Held<'_>,
    fence: Option<u64>,
    lease: Millis,
    limits: Limits,
    now: Millis,
) -> Result<Deadline, NotHeld> {
    check_fence(held.grant, fence)?;
    let until = lease_from(now, lease, held.grant, limits);
    let kept = || Some(until).filter(|until| *until >= held.deadline);
    within_age(held.grant, lease, limits, now).or_else(kept).ok_or(NotHeld::TooOld)
}

/// Returns the end of a lease of `lease` ms that begins now, within the grant's limits; `None` if the grant is past its maximum age. The
/// age includes its last millisecond, as a key's TTL does, and the expiry slack.
pub fn within_age(grant: &Grant, lease: Millis, limits: Limits, now: Millis) -> Option<Deadline> {
    Some(lease_from(now, lease, grant, limits))
        .filter(|deadline| *deadline >= Deadline::At(now.saturating_sub(limits.expiry_slack)))
}

/// Returns an error if the request names another fence than this grant's.
fn check_fence(grant: &Grant, fence: Option<u64>) -> Result<(), NotHeld> {
    if fence.is_none_or(|fence| fence == grant.fence().get()) { Ok(()) } else { Err(NotHeld::OtherFence) }
}
