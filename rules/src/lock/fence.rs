//! Fencing tokens, called fences. Each grant gets a fence that is greater than all earlier fences of any lock on the server.

use super::{Micros, Millis};

/// A fencing token, from 1 to 2^53 - 1. So even a client whose numbers are all doubles reads the token exactly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(test, derive(Hash))]
pub struct Fence(pub(super) u64);

impl Fence {
    pub(super) const BITS: u32 = 53;
    pub(crate) const MIN: Self = Self(1);
    /// The greatest fence, 2^53 - 1. In microseconds since 1970, this is in the year 2255.
    pub const MAX: Self = Self((1 << Self::BITS) - 1);

    pub fn new(value: u64) -> Option<Self> {
        (1..=Self::MAX.0).contains(&value).then_some(Self(value))
    }

    pub fn get(self) -> u64 {
        self.0
    }

    /// Returns when the grant was made, in microseconds since 1970, as the fence says. The fence is later than the grant if the server made
    /// several grants in one microsecond, or its clock was set back.
    pub fn granted_at(self) -> Micros {
        // The cast is exact, because the fence is below 2^53 (see `new`).
        self.0 as Micros
    }

    /// Returns `granted_at` in ms since 1970.
    pub(super) fn millis(self) -> Millis {
        self.granted_at() / 1000
    }
}

/// The clock that gives fences. This is the hybrid logical clock (Kulkarni et al., 2014) of one server, `max(last + 1, now)`.
///
/// The clock needs no key for a free lock, and no saved state. After a restart, the time is later than every earlier fence, unless somebody
/// set the machine's clock back by more than the time for which the server was down.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone, PartialEq, Eq, Hash))]
pub struct FenceClock {
    last: u64,
}

impl FenceClock {
    pub const fn new() -> Self {
        Self { last: 0 }
    }

    /// Returns the fence for a grant that is made now; `None` if the greatest fence has already been given.
    pub fn next(&mut self, now: Micros) -> Option<Fence> {
        let fence = Fence::new((self.last + 1).max(now.max(0).unsigned_abs()))?;
        self.last = fence.0;
        Some(fence)
    }

    /// Returns the greatest fence that this clock has given or observed; `None` if there is no such fence.
    pub fn last(&self) -> Option<Fence> {
        Fence::new(self.last)
    }

    /// Notes a fence from elsewhere (a file, a primary), so that the next fence is greater.
    pub fn observe(&mut self, fence: Fence) {
        self.last = self.last.max(fence.0);
    }
}
