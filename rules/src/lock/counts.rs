//! Packs a fence and a number of holds into 7 bytes.

use super::Fence;

/// A fence and a number of holds. The fence takes 53 of the 56 bits, the holds take 3 bits. So an enum that contains this type has room for
/// its tag in the eighth byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(Hash))]
pub(super) struct Counts([u8; 7]);

impl Counts {
    const MOST_HOLDS: u32 = (1 << (u64::BITS - 8 - Fence::BITS)) - 1;

    /// Stands for no grant: no grant has the fence 0.
    pub(super) const NONE: Self = Self([0; 7]);

    /// Packs a fence and a number of holds. Returns `None` if there are more than 7 holds.
    pub(super) fn new(fence: Fence, holds: u32) -> Option<Self> {
        if holds > Self::MOST_HOLDS {
            return None;
        }
        let [bytes @ .., _] = (u64::from(holds) << Fence::BITS | fence.0).to_le_bytes();
        Some(Self(bytes))
    }

    fn both(self) -> u64 {
        let [a, b, c, d, e, f, g] = self.0;
        u64::from_le_bytes([a, b, c, d, e, f, g, 0])
    }

    pub(super) fn fence(self) -> Fence {
        Fence(self.both() & Fence::MAX.0)
    }

    pub(super) fn holds(self) -> u32 {
        // The shift leaves at most 3 bits, so the cast loses nothing.
        (self.both() >> Fence::BITS) as u32
    }
}
