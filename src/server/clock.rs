//! Reads the clocks.

use redis_module::raw;
use rustix::time::{ClockId, Timespec, clock_gettime};

use super::kind;

/// Returns the time in microseconds since 1970.
///
/// With Redis 7.2 and later, this is the time that the server read when the command began. The server also decides by this time whether a
/// key has expired. Using this time saves reading the clock again. (Valkey 9 reads the clock only about once a millisecond, and counts the
/// processor's ticks in between. So if somebody sets the clock, Valkey 9 notices this at the next reading.)
pub(crate) fn now() -> i64 {
    // SAFETY: the table of functions is only written while the module loads, and the function takes nothing.
    if let Some(cached) = unsafe { raw::RedisModule_CachedMicroseconds } {
        // SAFETY: the function takes nothing.
        return unsafe { cached() };
    }
    let time = clock_gettime(ClockId::Realtime);
    time.tv_sec.saturating_mul(1_000_000).saturating_add(time.tv_nsec / 1000)
}

/// Returns the millisecond, since 1970, from which a lease that begins at `now` (in microseconds) is counted, so that the lease is never
/// too short. This is `now` rounded down if the server keeps a key until the end of its last millisecond, and otherwise rounded up.
pub(crate) fn lease_start(now: i64) -> i64 {
    let up = if kind::expires_early() { 999 } else { 0 };
    now.saturating_add(up) / 1000
}

/// Returns the milliseconds since the machine was booted, including the time for which it slept. Nobody can set this clock.
pub(crate) fn since_boot() -> i64 {
    millis(clock_gettime(ClockId::Boottime))
}

/// Returns the milliseconds for which the calling thread has run on a processor.
pub(crate) fn ran() -> i64 {
    millis(clock_gettime(ClockId::ThreadCPUTime))
}

/// Returns microseconds on a clock that nobody sets, for measuring how long something takes.
pub(crate) fn ticks() -> i64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec.saturating_mul(1_000_000).saturating_add(time.tv_nsec / 1000)
}

fn millis(time: Timespec) -> i64 {
    time.tv_sec.saturating_mul(1000).saturating_add(time.tv_nsec / 1_000_000)
}
