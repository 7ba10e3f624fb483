//! Waits for conditions, so that tests need not sleep for a guessed time.

use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How long a condition or a reply may take. Only a failing test waits this long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The shortest and the longest sleep between two checks of a condition; longer ones save time for hundreds of tests in parallel.
const NAPS: [Duration; 2] = [Duration::from_millis(1), Duration::from_millis(10)];

/// Returns soon after the condition has become true: each sleep between two checks is a sixteenth of the time that has passed, within
/// [`NAPS`]. Panics after [`PATIENCE`], naming the condition.
#[track_caller]
pub(crate) fn wait_for(what: &str, mut condition: impl FnMut() -> bool) {
    let began = Instant::now();
    while !condition() {
        let waited = began.elapsed();
        assert!(waited < PATIENCE, "waited {PATIENCE:?} in vain for: {what}");
        sleep((waited / 16).clamp(NAPS[0], NAPS[1]));
    }
}

/// Returns the wall clock's time, which is also the server's, in ms since 1970.
pub(crate) fn wall_clock() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as i64
}
