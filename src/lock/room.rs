//! How many may hold a lock at the same time.

use std::num::NonZeroU32;

/// For how many holders an ask has room, and the grant that comes of it, itself included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(test, derive(Hash))]
pub(crate) struct Room(NonZeroU32);

impl Room {
    /// A plain lock: nobody beside it.
    pub(crate) const ONE: Self = Self(NonZeroU32::MIN);
    /// `SHARED`: any number.
    pub(crate) const ANY: Self = Self(NonZeroU32::MAX);
    /// The greatest `LIMIT`.
    pub(crate) const MOST: u32 = u32::MAX - 1;

    /// `LIMIT n`; none where that is 0 or above [`Self::MOST`].
    pub(crate) fn limit(most: u32) -> Option<Self> {
        NonZeroU32::new(most).map(Self).filter(|room| *room != Self::ANY)
    }

    /// The most holders, where there is such a number.
    pub(crate) fn most(self) -> Option<u32> {
        Some(self.0.get()).filter(|_| self != Self::ANY)
    }

    /// The most holders; of any number, more than there ever are.
    pub(super) fn holders(self) -> usize {
        self.0.get() as usize
    }

    pub(crate) fn is_exclusive(self) -> bool {
        self == Self::ONE
    }
}
