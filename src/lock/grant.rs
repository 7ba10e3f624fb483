//! One stretch of ownership, from the moment a lock goes to an owner until it is free again.

use super::{Fence, Millis, Owner};

/// A grant: who holds the lock, how often, and with which fence.
///
/// Its lease is not here: that is the TTL of the key. 32 bytes where the owner is a UUID and nothing unusual is
/// asked, so that a held lock costs no more memory than a string with the same token; the rest is boxed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Grant(Repr);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Repr {
    Compact {
        holds: u32,
        fence: Fence,
        uuid: [u8; 16],
    },
    Full(Box<Full>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Full {
    owner: Owner<'static>,
    fence: Fence,
    holds: u32,
}

const _: () = assert!(size_of::<Grant>() == 32);

impl Grant {
    /// A grant just made: one hold.
    pub(crate) fn new(owner: Owner<'_>, fence: Fence) -> Self {
        Self::with_holds(owner, fence, 1)
    }

    /// A grant with that many holds (at least 1), as it comes from a file or a primary.
    pub(crate) fn with_holds(owner: Owner<'_>, fence: Fence, holds: u32) -> Self {
        Self(match owner {
            Owner::Uuid(uuid) => Repr::Compact { holds, fence, uuid },
            name => Repr::Full(Box::new(Full {
                owner: name.into_owned(),
                fence,
                holds,
            })),
        })
    }

    pub(crate) fn owner(&self) -> Owner<'_> {
        match &self.0 {
            Repr::Compact { uuid, .. } => Owner::Uuid(*uuid),
            Repr::Full(full) => full.owner.borrowed(),
        }
    }

    pub(crate) fn fence(&self) -> Fence {
        match &self.0 {
            Repr::Compact { fence, .. } => *fence,
            Repr::Full(full) => full.fence,
        }
    }

    pub(crate) fn holds(&self) -> u32 {
        match &self.0 {
            Repr::Compact { holds, .. } => *holds,
            Repr::Full(full) => full.holds,
        }
    }

    pub(crate) fn set_holds(&mut self, count: u32) {
        match &mut self.0 {
            Repr::Compact { holds, .. } => *holds = count,
            Repr::Full(full) => full.holds = count,
        }
    }

    /// How long the grant has been held, in ms.
    pub(crate) fn age(&self, now: Millis) -> Millis {
        now.saturating_sub(self.fence().granted_at() / 1000).max(0)
    }

    /// Bytes on the heap beyond the grant's own.
    pub(crate) fn heap_size(&self) -> usize {
        match &self.0 {
            Repr::Compact { .. } => 0,
            Repr::Full(full) => {
                size_of::<Full>()
                    + match &full.owner {
                        Owner::Uuid(_) => 0,
                        Owner::Name(name) => name.len(),
                    }
            }
        }
    }
}
