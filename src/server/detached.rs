//! The module's own context, for calls to the server (such as starting a timer) from code that has no callback's context.

use std::sync::atomic::{AtomicPtr, Ordering};

use redis_module::raw;

static CONTEXT: AtomicPtr<raw::RedisModuleCtx> = AtomicPtr::new(std::ptr::null_mut());

/// Gets the module's own context from the server, once, when the module is loaded.
pub(super) fn open(ctx: *mut raw::RedisModuleCtx) {
    // SAFETY: the server gave us the context for the time of loading, and the new context lives as long as the module.
    let own = unsafe { api!(RedisModule_GetDetachedThreadSafeContext(ctx)) };
    CONTEXT.store(own, Ordering::Relaxed);
}

/// Returns the module's own context, which can't be used to reply or replicate.
pub(super) fn context() -> *mut raw::RedisModuleCtx {
    CONTEXT.load(Ordering::Relaxed)
}
