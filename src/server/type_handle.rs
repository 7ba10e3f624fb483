//! A native data type once it is registered.

use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use redis_module::raw;

/// A type as the server knows it, from the time it is registered, and how many values of it there are.
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

    /// How many values the server keeps.
    pub(crate) fn values(&self) -> u64 {
        // In this order: a value that is freed meanwhile on a background thread was made before.
        let freed = self.freed.load(Ordering::Acquire);
        self.made.load(Ordering::Relaxed).saturating_sub(freed)
    }

    /// Takes note of a value that the server keeps from now on.
    pub(super) fn count_made(&self) {
        // Values are made in callbacks that run one at a time: a load and a store are enough.
        self.made.store(self.made.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }

    /// Takes note of a value that the server is done with.
    pub(super) fn count_freed(&self) {
        // Values are freed on background threads too.
        self.freed.fetch_add(1, Ordering::Release);
    }
}
