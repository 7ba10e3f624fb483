//! Long runs: the same tests with bigger numbers where `REDISLOCK_SOAK=1` is set, figures to keep, and one seed for all
//! that is random.

use std::env;
use std::fmt::Display;
use std::sync::atomic::{AtomicBool, Ordering};

/// How much is to be done: in every run of the tests, or in full.
pub(crate) fn size<T>(short: T, full: T) -> T {
    if env::var_os("REDISLOCK_SOAK").is_some_and(|value| value == "1") { full } else { short }
}

/// A line that `scripts/soak` keeps.
pub(crate) fn figure(name: &str, value: impl Display) {
    println!("figure: {name}: {value}");
}

/// Says that something is over once it is dropped: also where a test fails, so that nobody goes on for ever.
pub(crate) struct Ends<'a>(pub(crate) &'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Random numbers: the same ones from the same seed.
pub(crate) struct Rng(fastrand::Rng);

impl Rng {
    /// From `REDISLOCK_SEED`, else anew. A test that fails shows it, since it is printed.
    pub(crate) fn new() -> Self {
        let seed = match env::var("REDISLOCK_SEED") {
            Ok(seed) => seed.parse().expect("REDISLOCK_SEED is a number"),
            Err(_) => fastrand::u64(..),
        };
        println!("seed: REDISLOCK_SEED={seed}");
        Self(fastrand::Rng::with_seed(seed))
    }

    /// Another one, which goes its own way: for a thread.
    pub(crate) fn fork(&mut self) -> Self {
        Self(self.0.fork())
    }

    /// 0 to `end` - 1.
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
