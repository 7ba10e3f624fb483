//! Long runs: with `REDISLOCK_SOAK=1`, the same tests use larger numbers. Also figures to keep, and a seed for everything that is random.

use std::env;
use std::fmt::Display;
use std::sync::atomic::{AtomicBool, Ordering};

/// Returns `short` in usual runs, and `full` in long runs.
pub(crate) fn size<T>(short: T, full: T) -> T {
    if env::var_os("REDISLOCK_SOAK").is_some_and(|value| value == "1") { full } else { short }
}

/// Prints a line that `scripts/soak` keeps.
pub(crate) fn figure(name: &str, value: impl Display) {
    println!("figure: {name}: {value}");
}

/// Sets the flag when this is dropped, so that threads end even if the test panics.
pub(crate) struct Ends<'a>(pub(crate) &'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Random numbers, which depend only on the seed.
pub(crate) struct Rng(fastrand::Rng);

impl Rng {
    /// Uses the seed `REDISLOCK_SEED`, or a new one. The seed is printed, so a failing test shows it.
    pub(crate) fn new() -> Self {
        let seed = match env::var("REDISLOCK_SEED") {
            Ok(seed) => seed.parse().expect("REDISLOCK_SEED is a number"),
            Err(_) => fastrand::u64(..),
        };
        println!("seed: REDISLOCK_SEED={seed}");
        Self(fastrand::Rng::with_seed(seed))
    }

    /// Returns an independent generator, for a thread.
    pub(crate) fn fork(&mut self) -> Self {
        Self(self.0.fork())
    }

    /// Returns a number from 0 to `end` - 1.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.0.usize(..end)
    }

    pub(crate) fn one_of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len())]
    }

    pub(crate) fn percent(&mut self, chance: usize) -> bool {
        self.below(100) < chance
    }
}
