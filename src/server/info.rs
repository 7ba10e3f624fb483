//! What the module adds to `INFO`.

use std::ffi::{CStr, c_int};
use std::sync::OnceLock;

use redis_module::raw;

use super::guard::guard;
use super::{Ctx, detached};

/// Writes the module's sections of `INFO`.
pub(crate) type WriteInfo = fn(&mut InfoWriter);

/// Writes sections and their fields; the server puts the module's name before both.
pub(crate) struct InfoWriter(*mut raw::RedisModuleInfoCtx);

impl InfoWriter {
    /// Begins a section; `false`: it is not asked for, and its fields are to be left out.
    pub(crate) fn section(&mut self, name: &CStr) -> bool {
        // SAFETY: made by `write` from the server's own, for as long as it runs; the server copies the name.
        let status = unsafe { api!(RedisModule_InfoAddSection(self.0, name.as_ptr())) };
        status == raw::REDISMODULE_OK as c_int
    }

    /// A context for what is to be looked up. The server gives none here.
    pub(crate) fn ctx(&self) -> Ctx<'static> {
        // SAFETY: the module's own, which lives as long as the module.
        unsafe { Ctx::new(detached::context()) }
    }

    pub(crate) fn field(&mut self, name: &CStr, value: u64) {
        // SAFETY: as in `section`.
        unsafe { api!(RedisModule_InfoAddFieldULongLong(self.0, name.as_ptr(), value)) };
    }
}

/// What to call for `INFO`: the server's callback is given nothing to tell it by.
static WRITE: OnceLock<WriteInfo> = OnceLock::new();

/// Registers the function that writes the module's part of `INFO`. Whether the server took it.
pub(super) fn register(ctx: *mut raw::RedisModuleCtx, write_info: WriteInfo) -> bool {
    WRITE.get_or_init(|| write_info);
    // SAFETY: the server gave us the context for the time of loading.
    let status = unsafe { api!(RedisModule_RegisterInfoFunc(ctx, Some(write))) };
    status == raw::REDISMODULE_OK as c_int
}

/// # Safety
/// Called by the server, with a context that is valid until it returns.
unsafe extern "C" fn write(info: *mut raw::RedisModuleInfoCtx, for_crash_report: c_int) {
    // A server that is crashing may be in the middle of anything of ours.
    if for_crash_report == 0 {
        guard(c"info", || WRITE.get().map(|write_info| write_info(&mut InfoWriter(info))));
    }
}
