//! What each command does to a lock, decided from its state alone. Nothing here changes anything.

use super::{Deadline, Fence, Grant, Millis, Owner};

/// A held lock as a command finds it; a free one (or one whose lease is over) is `None`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held<'a> {
    pub(crate) grant: &'a Grant,
    pub(crate) deadline: Deadline,
}

/// What an acquire asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ask<'a> {
    pub(crate) owner: &'a Owner<'a>,
    /// How long the lease is to be, in ms.
    pub(crate) lease: Millis,
    /// An owner that holds the lock already wants its grant back, not another hold.
    pub(crate) once: bool,
}

/// What comes of an acquire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Acquired {
    /// The lock was free: a new grant, with one hold, until then.
    Granted { deadline: Deadline },
    /// The owner held it already: so many holds, until then. Both may be what they were (`ONCE`).
    Reentered { holds: u32, deadline: Deadline },
    /// The lock is another's.
    Refused,
}

/// The re-entrancy count is at its limit (2^32 - 1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooManyHolds;

/// Decides an acquire. A re-entry never shortens a lease.
pub(crate) fn acquire(held: Option<Held<'_>>, ask: Ask<'_>, now: Millis) -> Result<Acquired, TooManyHolds> {
    let asked = Deadline::after(now, ask.lease);
    let Some(Held { grant, deadline }) = held else {
        return Ok(Acquired::Granted { deadline: asked });
    };
    if grant.owner() != *ask.owner {
        return Ok(Acquired::Refused);
    }
    let holds = if ask.once {
        grant.holds()
    } else {
        grant.holds().checked_add(1).ok_or(TooManyHolds)?
    };
    Ok(Acquired::Reentered {
        holds,
        deadline: deadline.max(asked),
    })
}

/// What comes of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Released {
    /// The grant goes on with so many holds.
    Kept { holds: u32 },
    /// That was the last hold.
    Ended,
}

/// Decides a release of one hold, or of all; `None`: the lock is not held by this owner with this fence.
pub(crate) fn release(
    held: Option<Held<'_>>,
    owner: &Owner<'_>,
    fence: Option<Fence>,
    all: bool,
) -> Option<Released> {
    let grant = holder(held, owner, fence)?.grant;
    Some(match grant.holds().saturating_sub(1) {
        0 => Released::Ended,
        _ if all => Released::Ended,
        holds => Released::Kept { holds },
    })
}

/// Decides an extension: the new deadline; `None`: the lock is not held by this owner with this fence.
pub(crate) fn extend(
    held: Option<Held<'_>>,
    owner: &Owner<'_>,
    fence: Option<Fence>,
    lease: Millis,
    now: Millis,
) -> Option<Deadline> {
    holder(held, owner, fence)?;
    Some(Deadline::after(now, lease))
}

/// Decides whether an operator's break ends the grant: it has that fence, where one is named.
pub(crate) fn may_break(held: Option<Held<'_>>, fence: Option<Fence>) -> bool {
    held.is_some_and(|held| fence.is_none_or(|fence| fence == held.grant.fence()))
}

/// The grant, where it is this owner's, and has this fence where one is named.
fn holder<'a>(held: Option<Held<'a>>, owner: &Owner<'_>, fence: Option<Fence>) -> Option<Held<'a>> {
    held.filter(|held| held.grant.owner() == *owner && fence.is_none_or(|fence| fence == held.grant.fence()))
}
