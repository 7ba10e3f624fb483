//! Server processes with their own clocks, which a test can set. The machine's clocks stay unchanged.

use super::Setup;
use super::preload::Preload;

/// A wall clock that shows the machine's time until it is set.
pub(crate) struct WallClock(Preload);

impl WallClock {
    pub(crate) fn new() -> Self {
        Self(Preload::new("wall_clock.c"))
    }

    /// Makes the server use this clock.
    pub(crate) fn of(&self, setup: Setup) -> Setup {
        self.0.of(setup)
    }

    /// Sets the clock ahead of the machine's time by this many seconds, or back if the number is negative.
    pub(crate) fn set(&self, seconds: impl Into<f64>) {
        self.0.set(0, (seconds.into() * 1e9) as i64);
    }

    /// Moves all clocks of a stopped server, once, as if it had stood still for this many seconds.
    pub(crate) fn pass(&self, seconds: impl Into<f64>) {
        self.0.set(1, (seconds.into() * 1e9) as i64);
    }
}
