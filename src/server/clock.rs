//! The time.

use redis_module::raw;
use rustix::time::{ClockId, Timespec, clock_gettime};

use super::kind;

/// Microseconds since 1970.
///
/// Where the server has it (7.2 and later), the time it read when the command began: the one it uses itself to tell
/// whether a key has expired, and no second reading of the clock. (Valkey 9 counts the processor's ticks and reads the clock about
/// once in a millisecond: for so long it does not see that somebody has set it.)
pub(crate) fn now() -> i64 {
    // SAFETY: the table of functions is only written while the module loads; the function takes nothing.
    if let Some(cached) = unsafe { raw::RedisModule_CachedMicroseconds } {
        // SAFETY: as above.
        return unsafe { cached() };
    }
    let time = clock_gettime(ClockId::Realtime);
    time.tv_sec.saturating_mul(1_000_000).saturating_add(time.tv_nsec / 1000)
}

/// The millisecond since 1970 from which a lease is counted that begins at `now` (in microseconds), so that the lease is never too short.
/// If the server keeps a key until its last millisecond is over, this is the current millisecond; else it is the next one.
pub(crate) fn lease_start(now: i64) -> i64 {
    let up = if kind::expires_early() { 999 } else { 0 };
    now.saturating_add(up) / 1000
}

/// Milliseconds since the machine was booted, asleep or not. Nobody sets this clock.
pub(crate) fn since_boot() -> i64 {
    millis(clock_gettime(ClockId::Boottime))
}

/// For how many milliseconds the calling thread has run.
pub(crate) fn ran() -> i64 {
    millis(clock_gettime(ClockId::ThreadCPUTime))
}

/// Microseconds on a clock that nobody sets and that only tells how long something takes.
pub(crate) fn ticks() -> i64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec.saturating_mul(1_000_000).saturating_add(time.tv_nsec / 1000)
}

fn millis(time: Timespec) -> i64 {
    time.tv_sec.saturating_mul(1000).saturating_add(time.tv_nsec / 1_000_000)
}
