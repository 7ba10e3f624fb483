//! The context of the module's own, for what is done outside a callback's: to start and stop timers.

use std::sync::atomic::{AtomicPtr, Ordering};

use redis_module::raw;

static CONTEXT: AtomicPtr<raw::RedisModuleCtx> = AtomicPtr::new(std::ptr::null_mut());

/// Asks the server for it, which is done once, with the context of the time of loading.
pub(super) fn open(ctx: *mut raw::RedisModuleCtx) {
    // SAFETY: the server gave us the context for the time of loading; the new one lives as long as the module.
    let own = unsafe { api!(RedisModule_GetDetachedThreadSafeContext(ctx)) };
    CONTEXT.store(own, Ordering::Relaxed);
}

/// Nothing is replicated or answered through it.
pub(super) fn context() -> *mut raw::RedisModuleCtx {
    CONTEXT.load(Ordering::Relaxed)
}
