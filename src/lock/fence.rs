//! Fencing tokens: one for each grant, strictly rising over all locks of a server.

use super::{Micros, Millis};

/// A fencing token: at least 1 and below 2^53, so that a client whose only number is a double reads it exactly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(test, derive(Hash))]
pub(crate) struct Fence(pub(super) u64);

impl Fence {
    pub(super) const BITS: u32 = 53;
    pub(crate) const MIN: Self = Self(1);
    /// The greatest fence there can be: 2^53 - 1, reached by the clock in the year 2255.
    pub(crate) const MAX: Self = Self((1 << Self::BITS) - 1);

    pub(crate) fn new(value: u64) -> Option<Self> {
        (1..=Self::MAX.0).contains(&value).then_some(Self(value))
    }

    pub(crate) fn get(self) -> u64 {
        self.0
    }

    /// When the grant was made, in microseconds since 1970. The fence is that time, unless many grants in one microsecond or a clock that
    /// was set back pushed the fence ahead.
    pub(crate) fn granted_at(self) -> Micros {
        // The fence is below 2^53 (see `new`), so it fits.
        self.0 as Micros
    }

    /// When the grant was made, in ms.
    pub(super) fn millis(self) -> Millis {
        self.granted_at() / 1000
    }
}

/// Hands out fences: the hybrid logical clock (Kulkarni et al., 2014) of one server, `max(last + 1, now)`.
///
/// It needs no key for a free lock, and no saved state: after a restart the wall clock is ahead of every earlier fence, unless somebody set
/// it back by more than the time for which the server was down.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone, PartialEq, Eq, Hash))]
pub(crate) struct FenceClock {
    last: u64,
}

impl FenceClock {
    pub(crate) const fn new() -> Self {
        Self { last: 0 }
    }

    /// The fence for a grant made now; `None` once 2^53 - 1 has been given.
    pub(crate) fn next(&mut self, now: Micros) -> Option<Fence> {
        let fence = Fence::new((self.last + 1).max(now.max(0).unsigned_abs()))?;
        self.last = fence.0;
        Some(fence)
    }

    /// The last fence that was given or seen; `None` before the first.
    pub(crate) fn last(&self) -> Option<Fence> {
        Fence::new(self.last)
    }

    /// Notes a fence from elsewhere (a file, a primary), so that the next fence is greater.
    pub(crate) fn observe(&mut self, fence: Fence) {
        self.last = self.last.max(fence.0);
    }
}
