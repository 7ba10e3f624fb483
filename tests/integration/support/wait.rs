//! Waiting for a condition, in place of sleeping a guess.

use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How long a condition may take to come true, and a server to answer. Only a failing test waits that long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Returns as soon as the condition is true; panics with what it waited for where that takes longer than [`PATIENCE`].
#[track_caller]
pub(crate) fn wait_for(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < deadline, "waited {PATIENCE:?} in vain for: {what}");
        sleep(Duration::from_millis(1));
    }
}

/// The wall clock's time, which is the server's too, in ms since 1970.
pub(crate) fn wall_clock() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as i64
}
