//! Locks as keys: the native type `lockstate`, whose TTL is the lease, and the effects that carry changes to replicas and files.
//!
//! An effect has the state of a lock after a change (the owner, the fence, the holds and the absolute deadline), never the request. So a
//! replica makes no decision by its own clock, and applying an effect twice does no harm.

mod encoding;
mod fences;
#[cfg(fuzzing)]
pub(crate) mod fuzzing;
mod lock_key;
mod removals;

pub(crate) use fences::{observe_fence, restored, with_fences};
pub(crate) use lock_key::{APPLY, LockKey, Signal};
pub(crate) use removals::{evicted, expired, log_lapse, publish_lapse, touched, unlinked, warn_of_evictions};

use crate::server::NativeType;
use rules::lock::Value;

/// Returns the number of locks in memory. The number includes lapsed locks that the server has not deleted yet, and locks of a data set
/// that is being loaded beside the present one, or freed in the background.
pub(crate) fn locks() -> u64 {
    Value::handle().values()
}
