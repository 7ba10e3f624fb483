//! Clocks of a server's own, which a test sets while the server runs. The machine's stay as they are.

use super::Setup;
use super::preload::Preload;

/// Shows the machine's time until it is set.
pub(crate) struct WallClock(Preload);

impl WallClock {
    pub(crate) fn new() -> Self {
        Self(Preload::new("wall_clock.c"))
    }

    /// A server that goes by this clock.
    pub(crate) fn of(&self, setup: Setup) -> Setup {
        self.0.of(setup)
    }

    /// Sets the clock to so many seconds ahead of the machine's time; below 0: behind.
    pub(crate) fn set(&self, seconds: impl Into<f64>) {
        self.0.set(0, (seconds.into() * 1e9) as i64);
    }

    /// Shows a server that stands still, once, that it did so for so many seconds: on all its clocks.
    pub(crate) fn pass(&self, seconds: impl Into<f64>) {
        self.0.set(1, (seconds.into() * 1e9) as i64);
    }
}
