//! The handle of a registered native type.

use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use redis_module::raw;

/// The registered type, and counts of its values.
pub(crate) struct TypeHandle {
    registered: AtomicPtr<raw::RedisModuleType>,
    made: AtomicU64,
    freed: AtomicU64,
}

impl TypeHandle {
    pub(crate) const fn new() -> Self {
        Self {
            registered: AtomicPtr::new(std::ptr::null_mut()),
            made: AtomicU64::new(0),
            freed: AtomicU64::new(0),
        }
    }

    pub(super) fn raw(&self) -> *mut raw::RedisModuleType {
        self.registered.load(Ordering::Relaxed)
    }

    pub(super) fn set(&self, registered: *mut raw::RedisModuleType) {
        self.registered.store(registered, Ordering::Relaxed);
    }

    /// Returns the number of values that the server keeps.
    pub(crate) fn values(&self) -> u64 {
        // `freed` is read before `made`, because a background thread may free values between the two reads, and `made` must count each
        // value that `freed` counts.
        let freed = self.freed.load(Ordering::Acquire);
        self.made.load(Ordering::Relaxed).saturating_sub(freed)
    }

    /// Counts a value that the server keeps from now on.
    pub(super) fn count_made(&self) {
        // Callbacks that make values run one at a time, so a load and a store are enough.
        self.made.store(self.made.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }

    /// Counts a value that the server is done with.
    pub(super) fn count_freed(&self) {
        // Background threads also free values, so the addition is atomic.
        self.freed.fetch_add(1, Ordering::Release);
    }
}
