//! Times and leases, as Redis counts them: since 1970, in whole milliseconds or microseconds.

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
