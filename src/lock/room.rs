//! How many may hold a lock at the same time.

use std::num::NonZeroU32;

/// The number of holders that a request, and the grant that it leads to, has room for, itself included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(test, derive(Hash))]
pub(crate) struct Room(NonZeroU32);

impl Room {
    /// A plain lock: nobody beside it.
    pub(crate) const ONE: Self = Self(NonZeroU32::MIN);
    /// The room of `SHARED`: any number of holders.
    pub(crate) const ANY: Self = Self(NonZeroU32::MAX);
    /// The greatest `LIMIT`.
    pub(crate) const MOST: u32 = u32::MAX - 1;

    /// The room of `LIMIT n`; `None` if n is 0 or above [`Self::MOST`].
    pub(crate) fn limit(most: u32) -> Option<Self> {
        NonZeroU32::new(most).map(Self).filter(|room| *room != Self::ANY)
    }

    /// The most holders, if their number is limited.
    pub(crate) fn most(self) -> Option<u32> {
        Some(self.0.get()).filter(|_| self != Self::ANY)
    }

    /// The most holders. For any number, this is more than there ever are.
    pub(super) fn holders(self) -> usize {
        self.0.get() as usize
    }

    pub(crate) fn is_exclusive(self) -> bool {
        self == Self::ONE
    }
}
