//! The time.

use std::time::SystemTime;

use redis_module::raw;

/// Microseconds since 1970.
///
/// Where the server has it (7.2 and later), the time it read when the command began: the one it uses itself to tell
/// whether a key has expired, and no second reading of the clock.
pub(crate) fn now() -> i64 {
    // SAFETY: the table of functions is only written while the module loads; the function takes nothing.
    if let Some(cached) = unsafe { raw::RedisModule_CachedMicroseconds } {
        // SAFETY: as above.
        return unsafe { cached() };
    }
    let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since_1970.as_micros()).unwrap_or(i64::MAX)
}
