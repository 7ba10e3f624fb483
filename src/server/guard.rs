//! Keeps panics out of the server: one that crossed the C boundary would end the process.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs the body of a callback; `None` where it panicked. The panic's message is on the server's standard error.
///
/// The state that the body touched is seen again after a panic, which is why callbacks mutate last.
pub(super) fn guard<R>(body: impl FnOnce() -> R) -> Option<R> {
    catch_unwind(AssertUnwindSafe(body)).ok()
}
