//! Fencing tokens: each grant gets one, and tokens strictly rise over all locks of a server.

use super::{Micros, Millis};

/// A fencing token, from 1 to 2^53 - 1. A client whose only number is a double reads it exactly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(test, derive(Hash))]
pub(crate) struct Fence(pub(super) u64);

impl Fence {
    pub(super) const BITS: u32 = 53;
    pub(crate) const MIN: Self = Self(1);
    /// The greatest fence, 2^53 - 1. The clock reaches it in the year 2255.
    pub(crate) const MAX: Self = Self((1 << Self::BITS) - 1);

    pub(crate) fn new(value: u64) -> Option<Self> {
        (1..=Self::MAX.0).contains(&value).then_some(Self(value))
    }

    pub(crate) fn get(self) -> u64 {
        self.0
    }

    /// Returns when the grant was made, in microseconds since 1970. The fence is this time, unless many grants in one microsecond, or a
    /// clock that was set back, pushed the fence ahead.
    pub(crate) fn granted_at(self) -> Micros {
        // The cast is exact, because the fence is below 2^53 (see `new`).
        self.0 as Micros
    }

    /// Returns when the grant was made, in ms since 1970.
    pub(super) fn millis(self) -> Millis {
        self.granted_at() / 1000
    }
}

/// Gives fences: it is the hybrid logical clock (Kulkarni et al., 2014) of one server, `max(last + 1, now)`.
///
/// The clock needs no key for a free lock, and no saved state: after a restart, the time is later than every earlier fence, unless somebody
/// set the machine's clock back by more than the time for which the server was down.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone, PartialEq, Eq, Hash))]
pub(crate) struct FenceClock {
    last: u64,
}

impl FenceClock {
    pub(crate) const fn new() -> Self {
        Self { last: 0 }
    }

    /// Returns the fence for a grant that is made now; `None` if 2^53 - 1 has been given.
    pub(crate) fn next(&mut self, now: Micros) -> Option<Fence> {
        let fence = Fence::new((self.last + 1).max(now.max(0).unsigned_abs()))?;
        self.last = fence.0;
        Some(fence)
    }

    /// Returns the greatest fence that was given or seen; `None` if there was none.
    pub(crate) fn last(&self) -> Option<Fence> {
        Fence::new(self.last)
    }

    /// Notes a fence from elsewhere (a file, a primary), so that the next fence is greater.
    pub(crate) fn observe(&mut self, fence: Fence) {
        self.last = self.last.max(fence.0);
    }
}
