//! Shows whether the event loop has slept between two moments, however long the process waited for a processor in between.

use std::mem::MaybeUninit;

/// The number of times the calling thread has gone to sleep by itself (its voluntary context switches). An event loop sleeps between
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
