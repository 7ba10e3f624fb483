//! A fence and a number of holds in 8 bytes.

use std::num::NonZeroU64;

use super::Fence;

/// A fence, which leaves 11 of 64 bits, and in those bits the holds.
///
/// Never zero, so that an `enum` needs no bytes to tell it from something else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(Hash))]
pub(super) struct Counts(NonZeroU64);

impl Counts {
    pub(super) const MIN: Self = Self(NonZeroU64::MIN);
    const MOST_HOLDS: u32 = (1 << (u64::BITS - Fence::BITS)) - 1;

    /// None where there are more than 2,047 holds.
    pub(super) fn new(fence: Fence, holds: u32) -> Option<Self> {
        if holds > Self::MOST_HOLDS {
            return None;
        }
        NonZeroU64::new(u64::from(holds) << Fence::BITS | fence.0).map(Self)
    }

    pub(super) fn fence(self) -> Fence {
        Fence(self.0.get() & Fence::MAX.0)
    }

    pub(super) fn holds(self) -> u32 {
        // 11 bits are left.
        (self.0.get() >> Fence::BITS) as u32
    }
}
