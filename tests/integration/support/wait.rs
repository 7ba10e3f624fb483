//! Waiting for a condition, in place of sleeping a guess.

use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How long a condition may take to come true, and a server to answer. Only a failing test waits that long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The shortest and the longest nap between two looks at a condition: hundreds of tests look at once.
const NAPS: [Duration; 2] = [Duration::from_millis(1), Duration::from_millis(10)];

/// Returns soon after the condition has come true: each nap between two looks is a sixteenth of the time that has passed, within
/// [`NAPS`]. Panics with what it waited for where that takes longer than [`PATIENCE`].
#[track_caller]
pub(crate) fn wait_for(what: &str, mut condition: impl FnMut() -> bool) {
    let began = Instant::now();
    while !condition() {
        let waited = began.elapsed();
        assert!(waited < PATIENCE, "waited {PATIENCE:?} in vain for: {what}");
        sleep((waited / 16).clamp(NAPS[0], NAPS[1]));
    }
}

/// The wall clock's time, which is the server's too, in ms since 1970.
pub(crate) fn wall_clock() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as i64
}
