//! Reads the clocks.

use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, Ordering};

use redis_module::raw;
use rustix::time::{ClockId, Timespec, clock_gettime};

/// Whether the server may delete a key when the last millisecond of its TTL begins, instead of when this millisecond ends. (Redis may do
/// this since 8.0: for a key that expires at `t`, `activeExpireCycleTryExpire` keeps the key while `now < t`. Before 8.0, it keeps the key
/// while `now <= t`.)
pub(super) static EXPIRES_EARLY: AtomicBool = AtomicBool::new(false);

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
    let up = if EXPIRES_EARLY.load(Ordering::Relaxed) { 999 } else { 0 };
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

/// Shows whether the event loop has slept between two moments, however long the process waited for a processor in between: this is the
/// number of times the calling thread has gone to sleep by itself (its voluntary context switches). An event loop sleeps between
/// iterations, and hardly ever within one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct LoopIteration(i64);

impl LoopIteration {
    /// Returns the present iteration. (A busy event loop may run many iterations without sleeping. These iterations count as one.)
    pub(crate) fn now() -> Self {
        let mut usage = MaybeUninit::<libc::rusage>::zeroed();
        // SAFETY: the kernel writes to this place, which is ours and large enough.
        unsafe { libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr()) };
        // SAFETY: the structure has only integers, all of them zero or written by the kernel.
        Self(unsafe { usage.assume_init() }.ru_nvcsw)
    }
}
