//! The module's own context, for starting and stopping timers outside a callback's context.

use std::sync::atomic::{AtomicPtr, Ordering};

use redis_module::raw;

static CONTEXT: AtomicPtr<raw::RedisModuleCtx> = AtomicPtr::new(std::ptr::null_mut());

/// Gets the context from the server, once, when the module is loaded.
pub(super) fn open(ctx: *mut raw::RedisModuleCtx) {
    // SAFETY: the server gave us the context for the time of loading; the new one lives as long as the module.
    let own = unsafe { api!(RedisModule_GetDetachedThreadSafeContext(ctx)) };
    CONTEXT.store(own, Ordering::Relaxed);
}

/// The module's own context. Nothing is replicated or replied through it.
pub(super) fn context() -> *mut raw::RedisModuleCtx {
    CONTEXT.load(Ordering::Relaxed)
}
