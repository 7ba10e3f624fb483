//! Writes sections and fields of `INFO`. What they say is the module's part (`WriteInfo`).

use std::ffi::{CStr, c_int};
use std::sync::OnceLock;

use redis_module::raw;

use super::Ctx;
use super::callback::{detached, guard};

/// A function that writes the module's sections of `INFO`.
pub(crate) type WriteInfo = fn(&mut InfoWriter);

/// Writes sections and fields of `INFO`. The server puts the module's name in front of their names.
pub(crate) struct InfoWriter(*mut raw::RedisModuleInfoCtx);

impl InfoWriter {
    /// Begins a section. Returns whether the client asked for this section. If not, the caller must leave the section's fields out.
    pub(crate) fn section(&mut self, name: &CStr) -> bool {
        // SAFETY: `write` made the writer from the server's pointer, `self` does not outlive the callback, and the server copies the name.
        let status = unsafe { api!(RedisModule_InfoAddSection(self.0, name.as_ptr())) };
        status == raw::REDISMODULE_OK as c_int
    }

    /// Returns a context for looking up keys, because the server gives no context to the callback for `INFO`.
    pub(crate) fn ctx(&self) -> Ctx<'static> {
        // SAFETY: the context is the module's own, which lives as long as the module.
        unsafe { Ctx::new(detached()) }
    }

    pub(crate) fn field(&mut self, name: &CStr, value: u64) {
        // SAFETY: as in `section`.
        unsafe { api!(RedisModule_InfoAddFieldULongLong(self.0, name.as_ptr(), value)) };
    }
}

/// The function to call for `INFO`. This function is in a `static`, because the server passes no data of the module to the callback.
static WRITE: OnceLock<WriteInfo> = OnceLock::new();

/// Registers the function that writes the module's part of `INFO`. Returns whether the server accepted the function.
pub(super) fn register(ctx: *mut raw::RedisModuleCtx, write_info: WriteInfo) -> bool {
    WRITE.get_or_init(|| write_info);
    // SAFETY: the server gave us the context for the time of loading.
    let status = unsafe { api!(RedisModule_RegisterInfoFunc(ctx, Some(write))) };
    status == raw::REDISMODULE_OK as c_int
}

/// # Safety
/// Only the server calls this function, with a context that is valid until it returns.
unsafe extern "C" fn write(info: *mut raw::RedisModuleInfoCtx, for_crash_report: c_int) {
    // A crashing server may be in the middle of any code of the module, so the module's state can't be used.
    if for_crash_report == 0 {
        guard(c"info", || WRITE.get().map(|write_info| write_info(&mut InfoWriter(info))));
    }
}
