//! Locks as keys: the native type `lockstate`, whose TTL is the lease, and what replicas and files are told.
//!
//! Replicas and files are told the state that a change led to, never the request: the owner, the fence, the holds and the absolute
//! deadline. So a replica needs no clock and no decision, and the same line twice does no harm.

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

/// The number of locks in memory. A lapsed lock counts until the server has deleted it. So do the locks of a data set that is loaded beside
/// the one in use, or freed in the background.
pub(crate) fn locks() -> u64 {
    Value::handle().values()
}
