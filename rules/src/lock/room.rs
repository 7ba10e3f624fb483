//! How many owners may hold a lock at the same time.

use std::num::NonZeroU32;

/// How many holders a request or a grant allows, counting its own owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(test, derive(Hash))]
pub struct Room(NonZeroU32);

impl Room {
    /// The room of a request without options, which allows only its own owner.
    pub const ONE: Self = Self(NonZeroU32::MIN);
    /// The room of `SHARED`: any number of holders.
    pub const ANY: Self = Self(NonZeroU32::MAX);
    /// The greatest `LIMIT`.
    pub const MOST: u32 = u32::MAX - 1;

    /// Returns the room of `LIMIT n`; `None` if n is 0 or above [`Self::MOST`].
    pub fn limit(most: u32) -> Option<Self> {
        NonZeroU32::new(most).map(Self).filter(|room| *room != Self::ANY)
    }

    /// Returns the most holders; `None` if their number is not limited.
    pub fn most(self) -> Option<u32> {
        Some(self.0.get()).filter(|_| self != Self::ANY)
    }

    /// Returns the most holders. If their number is not limited, the result is greater than the number of holders that a lock ever has.
    pub(super) fn holders(self) -> usize {
        self.0.get() as usize
    }

    pub fn is_exclusive(self) -> bool {
        self == Self::ONE
    }
}
