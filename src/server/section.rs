//! One section of the server's `INFO`, as it answers it to a module.

use std::ffi::CStr;

use redis_module::raw;

use super::Ctx;

pub(super) struct Section<'a> {
    ctx: &'a Ctx<'a>,
    fields: *mut raw::RedisModuleServerInfoData,
}

impl<'a> Section<'a> {
    pub(super) fn read(ctx: &'a Ctx<'a>, name: &CStr) -> Self {
        // SAFETY: the context is valid (see its `new`), and the name ends in NUL.
        let fields = unsafe { api!(RedisModule_GetServerInfo(ctx.raw(), name.as_ptr())) };
        Self { ctx, fields }
    }

    /// The value of a field; none where the server does not write it.
    pub(super) fn field(&self, name: &CStr) -> Option<&str> {
        // SAFETY: the server's answer, which lives until `drop`; the name ends in NUL.
        let text = unsafe { api!(RedisModule_ServerInfoGetFieldC(self.fields, name.as_ptr())) };
        if text.is_null() {
            return None;
        }
        // SAFETY: the server's text, which ends in NUL and lives as long as its answer, which `self` keeps.
        unsafe { CStr::from_ptr(text) }.to_str().ok()
    }
}

impl Drop for Section<'_> {
    fn drop(&mut self) {
        // SAFETY: the context is valid (see its `new`), and the answer is ours; what borrows from it ends before.
        unsafe { api!(RedisModule_FreeServerInfo(self.ctx.raw(), self.fields)) };
    }
}

impl Ctx<'_> {
    /// Which keys the server removes when memory is short: its setting `maxmemory-policy`.
    pub(crate) fn maxmemory_policy(&self) -> String {
        Section::read(self, c"memory").field(c"maxmemory_policy").unwrap_or_default().into()
    }
}
