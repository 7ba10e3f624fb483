//! Times and leases, as Redis counts them: since 1970, in whole milliseconds or microseconds. And fencing tokens, called fences, which are
//! times, too: each grant gets a fence that is greater than all earlier fences of any lock on the server.

/// Milliseconds since 1970, or a length of time in milliseconds.
pub type Millis = i64;

/// Microseconds since 1970, or a length of time in microseconds.
pub type Micros = i64;

/// The longest lease in ms: 2^53 - 1, about 285,000 years. Every client can read this number exactly.
pub const LONGEST_LEASE: Millis = (1 << 53) - 1;

/// The time of a step (the work of one command or timer), read once so that all decisions of the step use the same time.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    pub micros: Micros,
    /// The first millisecond, since 1970, of a lease that begins in this step.
    pub start: Millis,
}

impl Now {
    pub fn millis(self) -> Millis {
        self.micros / 1000
    }
}

/// When a lease ends.
///
/// Deadlines are ordered by time: `Never` comes after every `At`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(test, derive(Hash))]
pub enum Deadline {
    /// The last millisecond of the lease, since 1970. The grant lapses after this millisecond, as a Redis key expires after its TTL.
    At(Millis),
    /// The lease has no end, because `PERSIST` removed the TTL.
    Never,
}

impl Deadline {
    /// Returns the end of a lease of this length, in ms, that begins now.
    pub(crate) fn after(now: Millis, lease: Millis) -> Self {
        Self::At(now.saturating_add(lease))
    }

    /// Returns the rest of the lease in ms; -1 if the lease has no end, as in replies of `PTTL`.
    pub fn left(self, now: Millis) -> Millis {
        match self {
            Self::At(at) => at.saturating_sub(now).max(0),
            Self::Never => -1,
        }
    }
}

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
