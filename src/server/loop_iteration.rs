//! Whether two moments belong to one step of the event loop, however long the process had to wait for a processor in between.

use std::mem::MaybeUninit;

/// How often the calling thread has gone to sleep by itself: as an event loop does between steps, and never within one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct LoopIteration(i64);

impl LoopIteration {
    /// The iteration that is under way. (A busy event loop may not sleep for many steps.)
    pub(crate) fn now() -> Self {
        let mut usage = MaybeUninit::<libc::rusage>::zeroed();
        // SAFETY: the kernel writes to the place that it is given, which is ours and large enough.
        unsafe { libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr()) };
        // SAFETY: made of integers alone, all of them zero or what the kernel wrote.
        Self(unsafe { usage.assume_init() }.ru_nvcsw)
    }
}
