//! Counters of events since the server's start, which `INFO lock` shows.

use std::ffi::CStr;
use std::sync::atomic::{AtomicU64, Ordering};

/// A counter that `INFO lock` shows.
pub(crate) struct Counter(AtomicU64);

impl Counter {
    const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Adds one. Only callbacks of the server may call this function.
    pub(crate) fn count(&self) {
        self.add(1);
    }

    pub(crate) fn add(&self, count: u64) {
        // The server runs callbacks one at a time, so a load and a store are enough. Together they are cheaper than an atomic addition.
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(count), Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Declares the counters, each with the name of its field in `INFO lock`.
macro_rules! counters {
    ($($(#[$doc:meta])* $counter:ident = $field:literal;)*) => {
        $($(#[$doc])* pub(crate) static $counter: Counter = Counter::new();)*

        pub(crate) const COUNTERS: &[(&CStr, &Counter)] = &[$(($field, &$counter)),*];
    };
}

counters! {
    /// New grants, including those to waiters.
    GRANTS = c"grants";
    /// Grants with room for several holders.
    GRANTS_SHARED = c"grants_shared";
    /// Re-entries, including those with `ONCE`, which add no hold.
    REENTRIES = c"reentries";
    /// Re-entries that made the grant allow fewer holders than before, or gave the grant its first slot.
    UPGRADES = c"upgrades";
    /// Waits that the module refused or ended, because they would never have led to a grant.
    DEADLOCKS = c"deadlocks";
    /// Acquires that would have had to wait, but were answered at once: with null, or with an error such as `GRACE` or `MAXWAITERS`.
    REFUSALS = c"refusals";
    /// Grants to waiters.
    HANDOVERS = c"handovers";
    /// Grants ended by their owner.
    RELEASES = c"releases";
    /// Extensions by `LOCK.EXTEND`.
    EXTENSIONS = c"extensions";
    /// Grants that ended because their leases were over.
    LAPSES = c"lapses";
    /// Grants whose key the server evicted.
    EVICTIONS = c"evictions";
    /// Grants ended by `LOCK.BREAK`.
    BREAKS = c"breaks";
    /// Waits that timed out.
    TIMEOUTS = c"timeouts";
    /// Grants with `SESSION` that ended because their connection closed.
    SESSIONS_ENDED = c"sessions_ended";
    /// Grants and extensions that replicas have confirmed, as `SYNC` asked.
    SYNCS = c"syncs";
    /// Grants and extensions with `SYNC` that too few replicas confirmed in time.
    SYNCS_FAILED = c"syncs_failed";
    /// Messages for `NOTIFY`, including those that were not published because the user had lost the right to the channel.
    MESSAGES = c"messages";
    /// Messages that certainly nobody received: nobody was subscribed, or the user had lost the right to the channel.
    MESSAGES_UNHEARD = c"messages_unheard";
}

/// The buckets of a histogram of the waits that ended in a grant: the longest wait in ms that a bucket counts, and the bucket's field in
/// `INFO lock`. Each bucket also counts all shorter waits, as Prometheus expects.
pub(crate) const WAITS: [(i64, &CStr); 6] = [
    (1, c"waits_le_1ms"),
    (10, c"waits_le_10ms"),
    (100, c"waits_le_100ms"),
    (1_000, c"waits_le_1s"),
    (10_000, c"waits_le_10s"),
    (i64::MAX, c"waits_all"),
];

/// The total time of all waits that ended in a grant, in ms.
pub(crate) static WAITS_MS: Counter = Counter::new();

pub(crate) static WAITED: [Counter; WAITS.len()] = [const { Counter::new() }; WAITS.len()];

/// Counts a wait of `time` ms that ended in a grant. This function is not inlined, so that its code does not slow down grants without a
/// wait.
#[inline(never)]
pub(crate) fn waited(time: i64) {
    WAITS_MS.add(time.max(0).unsigned_abs());
    for ((limit, _), counter) in WAITS.iter().zip(&WAITED) {
        if time <= *limit {
            counter.count();
        }
    }
}
