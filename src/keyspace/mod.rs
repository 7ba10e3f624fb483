//! Locks as keys: the native type `lockstate`, whose TTL is the lease, and effects for replicas and files.
//!
//! An effect has the state after a change, never the request: the owner, the fence, the holds and the absolute deadline. So a replica needs
//! no clock and decides nothing, and an effect that is applied twice does no harm.

mod effects;
mod encoding;
mod fences;
#[cfg(fuzzing)]
pub(crate) mod fuzzing;
mod lapses;
mod lock_key;

pub(crate) use effects::{APPLY, Effect, Malformed};
pub(crate) use fences::{next_fence, observe_fence, restored};
pub(crate) use lapses::{evicted, expired, log_lapse, publish_lapse, unlinked, warn_of_evictions};
pub(crate) use lock_key::{LockKey, Signal};

use crate::lock::Value;
use crate::server::NativeType;

/// The number of locks in memory. A lapsed lock counts until the server has deleted it. Locks of a data set that is loaded beside the one
/// in use, or freed in the background, count too.
pub(crate) fn locks() -> u64 {
    Value::handle().values()
}
