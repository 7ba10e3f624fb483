//! The settings of the module, which `CONFIG SET lock.<name>`, the configuration file or an argument of `loadmodule` can set.

use crate::server::NumericConfig;
use rules::lock::{LONGEST_LEASE, Millis, Room};

/// The lease in ms of a command that names no lease.
pub(crate) static DEFAULT_LEASE: NumericConfig =
    NumericConfig::new(c"default-lease", 30_000, 1, LONGEST_LEASE);

/// The longest lease in ms that a command may ask for. 0 means no limit.
pub(crate) static MAX_LEASE: NumericConfig = NumericConfig::new(c"max-lease", 0, 0, LONGEST_LEASE);

/// The greatest age in ms that a grant may reach. 0 means no limit.
pub(crate) static MAX_HOLD: NumericConfig = NumericConfig::new(c"max-hold", 0, 0, LONGEST_LEASE);

/// The length in ms of a grace: the time after a start, a promotion or a freeze of the server in which the module grants nothing new. 0
/// means that there is no grace.
pub(crate) static FAILOVER_GRACE: NumericConfig = NumericConfig::new(c"failover-grace", 0, 0, LONGEST_LEASE);

/// The most waiters for one lock. 0 means no limit.
pub(crate) static MAX_WAITERS: NumericConfig = NumericConfig::new(c"max-waiters", 0, 0, u32::MAX as i64);

/// The most holders of one lock. 0 means no limit.
pub(crate) static MAX_HOLDERS: NumericConfig =
    NumericConfig::new(c"max-holders", 1_000, 0, Room::MOST as i64);

/// The time in ms that the owner of a place (a position in a queue, taken with `NOTIFY`) gets to claim its grant, from the message about
/// the grant on.
pub(crate) static CLAIM: NumericConfig = NumericConfig::new(c"claim", 5_000, 1, LONGEST_LEASE);

/// The most locks that may depend on one connection, through its places (positions in queues, taken with `NOTIFY`) and its sessions. 0
/// means no limit. Each kB of a lock's name counts as one more lock.
pub(crate) static MAX_PLACES: NumericConfig = NumericConfig::new(c"max-places", 10_000, 0, u32::MAX as i64);

/// The most keys that one command may name.
pub(crate) static MAX_KEYS: NumericConfig = NumericConfig::new(c"max-keys", 100, 1, 1_000);

/// The shortest lease in ms that a session may have. A shorter lease would mean more work, because the server renews a session's lease each
/// time a third of it has passed.
pub(crate) static MIN_SESSION_LEASE: NumericConfig =
    NumericConfig::new(c"min-session-lease", 1_000, 1, LONGEST_LEASE);

/// The log names each client that has waited for this many ms. 0 means that the log names no client.
pub(crate) static LOG_WAIT: NumericConfig = NumericConfig::new(c"log-wait", 0, 0, LONGEST_LEASE);

/// Returns the longest lease in ms that a command may ask for; `None` if `lock.max-lease` sets no limit.
pub(crate) fn longest_lease() -> Option<Millis> {
    Some(MAX_LEASE.get()).filter(|&max| max > 0)
}

/// Returns the longest lease in ms that is allowed: the setting `lock.max-lease`, or `LONGEST_LEASE` if the setting is 0.
pub(crate) fn max_lease() -> Millis {
    longest_lease().unwrap_or(LONGEST_LEASE)
}

/// Returns the most waiters for one lock; `None` if there is no limit.
pub(crate) fn max_waiters() -> Option<usize> {
    cap(&MAX_WAITERS)
}

pub(crate) fn max_holders() -> u32 {
    u32::try_from(MAX_HOLDERS.get()).ok().filter(|&most| most > 0).unwrap_or(Room::MOST)
}

pub(crate) fn max_keys() -> usize {
    MAX_KEYS.get().unsigned_abs() as usize
}

/// Returns the shortest lease in ms that a session may have. The result is never above `max_lease`.
pub(crate) fn min_session_lease() -> Millis {
    MIN_SESSION_LEASE.get().min(max_lease())
}

/// Returns the most locks that may depend on one connection; `None` if there is no limit.
pub(crate) fn max_places() -> Option<usize> {
    cap(&MAX_PLACES)
}

fn cap(setting: &NumericConfig) -> Option<usize> {
    usize::try_from(setting.get()).ok().filter(|&most| most > 0)
}

/// Returns the greatest age in ms that any grant may reach; `None` if there is no limit.
pub(crate) fn max_hold() -> Option<Millis> {
    Some(MAX_HOLD.get()).filter(|&max| max > 0)
}

/// Returns the lease in ms of a command that names no lease. The result is never above `max_lease`.
pub(crate) fn default_lease() -> Millis {
    DEFAULT_LEASE.get().min(max_lease())
}
