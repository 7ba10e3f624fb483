//! The settings of the module: `CONFIG SET lock.<name>`, the configuration file, or an argument of `loadmodule`.

use crate::lock::{LONGEST_LEASE, Millis, Room};
use crate::server::NumericConfig;

/// The lease in ms if a command names none.
pub(crate) static DEFAULT_LEASE: NumericConfig =
    NumericConfig::new(c"default-lease", 30_000, 1, LONGEST_LEASE);

/// The longest lease in ms that a command may ask for; 0: no limit.
pub(crate) static MAX_LEASE: NumericConfig = NumericConfig::new(c"max-lease", 0, 0, LONGEST_LEASE);

/// The greatest age in ms that a grant may reach; 0: no limit.
pub(crate) static MAX_HOLD: NumericConfig = NumericConfig::new(c"max-hold", 0, 0, LONGEST_LEASE);

/// How long in ms nothing new is granted after a start, a promotion or a freeze; 0: new grants at once.
pub(crate) static FAILOVER_GRACE: NumericConfig = NumericConfig::new(c"failover-grace", 0, 0, LONGEST_LEASE);

/// The most waiters on one lock; 0: no limit.
pub(crate) static MAX_WAITERS: NumericConfig = NumericConfig::new(c"max-waiters", 0, 0, u32::MAX as i64);

/// The most holders of one lock; 0: no limit.
pub(crate) static MAX_HOLDERS: NumericConfig =
    NumericConfig::new(c"max-holders", 1_000, 0, Room::MOST as i64);

/// How long in ms the owner of a place has to claim a grant after the message about it.
pub(crate) static CLAIM: NumericConfig = NumericConfig::new(c"claim", 5_000, 1, LONGEST_LEASE);

/// The most locks that may depend on one connection, by its places and by its sessions; a lock counts once more for each kB of its name. 0:
/// no limit.
pub(crate) static MAX_PLACES: NumericConfig = NumericConfig::new(c"max-places", 10_000, 0, u32::MAX as i64);

/// The most keys that one command may name.
pub(crate) static MAX_KEYS: NumericConfig = NumericConfig::new(c"max-keys", 100, 1, 1_000);

/// The shortest lease in ms that a session may have. The server renews a lease each time a third of it has passed.
pub(crate) static MIN_SESSION_LEASE: NumericConfig =
    NumericConfig::new(c"min-session-lease", 1_000, 1, LONGEST_LEASE);

/// How long in ms a client has to wait before the log names it; 0: never.
pub(crate) static LOG_WAIT: NumericConfig = NumericConfig::new(c"log-wait", 0, 0, LONGEST_LEASE);

/// The longest lease in ms that a command may ask for, if `lock.max-lease` sets a limit.
pub(crate) fn longest_lease() -> Option<Millis> {
    Some(MAX_LEASE.get()).filter(|&max| max > 0)
}

/// The longest lease in ms that is allowed now: the setting, or the longest lease that there can be.
pub(crate) fn max_lease() -> Millis {
    longest_lease().unwrap_or(LONGEST_LEASE)
}

/// The most waiters on one lock, if there is a limit.
pub(crate) fn max_waiters() -> Option<usize> {
    cap(&MAX_WAITERS)
}

/// The most holders of one lock.
pub(crate) fn max_holders() -> u32 {
    u32::try_from(MAX_HOLDERS.get()).ok().filter(|&most| most > 0).unwrap_or(Room::MOST)
}

/// The most keys that one command may name.
pub(crate) fn max_keys() -> usize {
    MAX_KEYS.get().unsigned_abs() as usize
}

/// The shortest lease in ms that a session may have. It is never above `max_lease`.
pub(crate) fn min_session_lease() -> Millis {
    MIN_SESSION_LEASE.get().min(max_lease())
}

/// The most locks that may depend on one connection, if there is a limit.
pub(crate) fn max_places() -> Option<usize> {
    cap(&MAX_PLACES)
}

fn cap(setting: &NumericConfig) -> Option<usize> {
    usize::try_from(setting.get()).ok().filter(|&most| most > 0)
}

/// The greatest age in ms that any grant may reach, if there is a limit.
pub(crate) fn max_hold() -> Option<Millis> {
    Some(MAX_HOLD.get()).filter(|&max| max > 0)
}

/// The lease in ms if a command names none. It is never above `max_lease`.
pub(crate) fn default_lease() -> Millis {
    DEFAULT_LEASE.get().min(max_lease())
}
