//! Reads a section of the server's `INFO`.

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

    /// Returns the value of a field; `None` if the section does not have the field.
    pub(super) fn field(&self, name: &CStr) -> Option<&str> {
        // SAFETY: the section is the server's, and lives until `drop`, and the name ends in NUL.
        let text = unsafe { api!(RedisModule_ServerInfoGetFieldC(self.fields, name.as_ptr())) };
        if text.is_null() {
            return None;
        }
        // SAFETY: the text is the server's, ends in NUL, and lives as long as the section, which `self` keeps.
        unsafe { CStr::from_ptr(text) }.to_str().ok()
    }
}

impl Drop for Section<'_> {
    fn drop(&mut self) {
        // SAFETY: the context is valid (see its `new`), and the section is ours, and everything that borrows from it has ended before.
        unsafe { api!(RedisModule_FreeServerInfo(self.ctx.raw(), self.fields)) };
    }
}

impl Ctx<'_> {
    /// Returns the server's setting `maxmemory-policy`, which says which keys the server removes when memory is short.
    pub(crate) fn maxmemory_policy(&self) -> String {
        Section::read(self, c"memory").field(c"maxmemory_policy").unwrap_or_default().into()
    }
}
