//! Writes and reads values in files, in the stream to a replica, and in `DUMP` payloads.

use std::ffi::CStr;

use redis_module::raw;

use super::Arg;

/// Writes a value to a file or a replica.
pub(crate) struct RdbWriter(pub(super) *mut raw::RedisModuleIO);

impl RdbWriter {
    pub(crate) fn unsigned(&mut self, value: u64) {
        // SAFETY: `native_type` made `self` from the server's stream, and `self` does not outlive the callback.
        unsafe { api!(RedisModule_SaveUnsigned(self.0, value)) };
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        // SAFETY: as in `unsigned`, and the server copies `len` bytes.
        unsafe { api!(RedisModule_SaveStringBuffer(self.0, bytes.as_ptr().cast(), bytes.len())) };
    }
}

/// The stream ended early, or has data of another kind than the data that was to be read.
#[derive(Debug)]
pub(crate) struct Truncated;

/// Reads a value from a file, a primary or a `RESTORE` payload.
pub(crate) struct RdbReader(pub(super) *mut raw::RedisModuleIO);

impl RdbReader {
    pub(crate) fn unsigned(&mut self) -> Result<u64, Truncated> {
        // SAFETY: `native_type` made `self` from the server's stream, and `self` does not outlive the callback.
        let value = unsafe { api!(RedisModule_LoadUnsigned(self.0)) };
        self.check().map(|()| value)
    }

    pub(crate) fn bytes(&mut self) -> Result<Vec<u8>, Truncated> {
        let mut len = 0;
        // SAFETY: as in `unsigned`, and `len` is ours to write to.
        let buffer = unsafe { api!(RedisModule_LoadStringBuffer(self.0, &raw mut len)) };
        if buffer.is_null() {
            return Err(Truncated);
        }
        // SAFETY: the server returned a buffer of `len` bytes, which is ours.
        let bytes = unsafe { std::slice::from_raw_parts(buffer.cast::<u8>(), len) }.to_vec();
        // SAFETY: the server's allocator made the buffer, and nothing refers to it any more.
        unsafe { api!(RedisModule_Free(buffer.cast())) };
        self.check().map(|()| bytes)
    }

    /// Whether a client sent the value (`RESTORE`). Such a value can be anything. Other values come from a file, a primary, or the node
    /// from which a hash slot is imported. (A writable replica can't tell clients from its primary, and treats all values like those of its
    /// primary.)
    pub(crate) fn is_from_client(&self) -> bool {
        const FROM_ELSEWHERE: u32 = raw::REDISMODULE_CTX_FLAGS_LOADING
            | raw::REDISMODULE_CTX_FLAGS_ASYNC_LOADING
            | raw::REDISMODULE_CTX_FLAGS_SLAVE;
        // SAFETY: without a context, the server returns only its own flags, and no flags of a client.
        let flags = unsafe { api!(RedisModule_GetContextFlags(std::ptr::null_mut())) }.cast_unsigned();
        flags & FROM_ELSEWHERE == 0 && !self.hash_slot_arrives()
    }

    /// Whether the key is in a hash slot that this node imports as a whole, by `RESTORE` (Redis 8.4 and later). If so, another node still
    /// serves the hash slot. Clients can't make such a key with `RESTORE`, because the server redirects them to that node. (If a slot is
    /// imported key by key, clients send `RESTORE`. Valkey 9 imports a slot with the commands of an append-only file.)
    fn hash_slot_arrives(&self) -> bool {
        // SAFETY: the table of functions is only written while the module loads.
        let hash_slot_of = unsafe { raw::RedisModule_ClusterKeySlot };
        // SAFETY: the table of functions is only written while the module loads.
        let is_ours = unsafe { raw::RedisModule_ClusterCanAccessKeysInSlot };
        let (Some(hash_slot_of), Some(is_ours)) = (hash_slot_of, is_ours) else { return false };
        // SAFETY: as in `unsigned`, and the server returns the name of the key, or null.
        let key = unsafe { api!(RedisModule_GetKeyNameFromIO(self.0)) };
        if key.is_null() {
            return false;
        }
        // SAFETY: the string is the server's own, and outlives the callback.
        let hash_slot = unsafe { hash_slot_of(key.cast_mut()) }.cast_signed();
        // SAFETY: the function takes any number.
        unsafe { is_ours(hash_slot) == 0 }
    }

    /// Returns the context of the callback. This context belongs to no client.
    pub(super) fn context(&self) -> *mut raw::RedisModuleCtx {
        // SAFETY: as in `unsigned`, and the server frees the context after the callback.
        unsafe { api!(RedisModule_GetContextFromIO(self.0)) }
    }

    fn check(&self) -> Result<(), Truncated> {
        // SAFETY: as in `unsigned`.
        let failed = unsafe { api!(RedisModule_IsIOError(self.0)) };
        if failed == 0 { Ok(()) } else { Err(Truncated) }
    }
}

/// Writes commands to an append-only file that is being rewritten.
pub(crate) struct AofRewrite(pub(super) *mut raw::RedisModuleIO);

impl AofRewrite {
    /// Writes `command key bytes`.
    pub(crate) fn bytes(&mut self, command: &CStr, key: Arg<'_>, bytes: &[u8]) {
        // SAFETY: `native_type` made `self` from the server's stream, `self` does not outlive the callback, and the format says that a server
        // string and a buffer with its length (a `usize`) follow.
        unsafe {
            api!(RedisModule_EmitAOF(
                self.0,
                command.as_ptr(),
                c"sb".as_ptr(),
                key.raw(),
                bytes.as_ptr(),
                bytes.len(),
            ));
        }
    }
}
