//! What is decided about a request for one lock.

use crate::lock::{Deadline, Fence, Room, Slot};

/// How a lock is to be granted.
#[derive(Clone, Copy)]
pub(super) struct Decision {
    pub(super) kind: Kind,
    pub(super) holds: u32,
    pub(super) room: Room,
    pub(super) slot: Option<Slot>,
    pub(super) until: Deadline,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    New,
    Reentry(Fence),
    /// A re-entry with less room, or with the grant's first slot.
    Upgrade(Fence),
}

/// How a lock is to be granted, or why it can't be granted now.
#[derive(Clone, Copy)]
pub(super) enum Verdict {
    Fits(Decision),
    Taken {
        /// For an upgrade, the grant that its owner has: its waiters go ahead of the queue.
        upgrade: Option<Fence>,
        /// Whether the request fits, but has to wait for the end of the grace.
        grace: bool,
    },
}

impl Verdict {
    pub(super) const TAKEN: Self = Self::Taken { upgrade: None, grace: false };

    pub(super) fn is_new(&self) -> bool {
        matches!(self, Self::Fits(decision) if decision.kind == Kind::New)
    }

    /// For a lock of which not all that is over has been ended: an owner may re-enter. For everybody else, the lock counts as taken.
    pub(super) fn unless_settled(self) -> Self {
        match self {
            Self::Taken { upgrade, grace } => {
                Self::Taken { upgrade: None, grace: grace && upgrade.is_some() }
            }
            verdict if verdict.is_new() => Self::TAKEN,
            verdict => verdict,
        }
    }

    /// The grant that is to be re-entered.
    pub(super) fn reenters(&self) -> Option<Fence> {
        match self {
            Self::Fits(Decision { kind: Kind::Reentry(fence) | Kind::Upgrade(fence), .. }) => Some(*fence),
            _ => None,
        }
    }

    pub(super) fn upgrade(&self) -> Option<Fence> {
        if let Self::Taken { upgrade, .. } = self { *upgrade } else { None }
    }
}
