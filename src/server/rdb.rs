//! Values in files, on their way to a replica, and in `DUMP` payloads: what the server saves for the module, and reads back.

use redis_module::raw;

/// Writes a value to a file or a replica.
pub(crate) struct RdbWriter(pub(super) *mut raw::RedisModuleIO);

impl RdbWriter {
    pub(crate) fn unsigned(&mut self, value: u64) {
        // SAFETY: made by `native_type` from the server's stream, for as long as its callback runs.
        unsafe { api!(RedisModule_SaveUnsigned(self.0, value)) };
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        // SAFETY: as in `unsigned`; the server copies `len` bytes.
        unsafe { api!(RedisModule_SaveStringBuffer(self.0, bytes.as_ptr().cast(), bytes.len())) };
    }
}

/// The stream ended early, or what it holds is of another kind.
#[derive(Debug)]
pub(crate) struct Truncated;

/// Reads a value from a file, a primary or a `RESTORE` payload.
pub(crate) struct RdbReader(pub(super) *mut raw::RedisModuleIO);

impl RdbReader {
    pub(crate) fn unsigned(&mut self) -> Result<u64, Truncated> {
        // SAFETY: made by `native_type` from the server's stream, for as long as its callback runs.
        let value = unsafe { api!(RedisModule_LoadUnsigned(self.0)) };
        self.check().map(|()| value)
    }

    pub(crate) fn bytes(&mut self) -> Result<Vec<u8>, Truncated> {
        let mut len = 0;
        // SAFETY: as in `unsigned`; `len` is ours to write to.
        let buffer = unsafe { api!(RedisModule_LoadStringBuffer(self.0, &raw mut len)) };
        if buffer.is_null() {
            return Err(Truncated);
        }
        // SAFETY: the server answered a buffer of `len` bytes, which is ours.
        let bytes = unsafe { std::slice::from_raw_parts(buffer.cast::<u8>(), len) }.to_vec();
        // SAFETY: the server's allocator made the buffer, and nothing refers to it any more.
        unsafe { api!(RedisModule_Free(buffer.cast())) };
        self.check().map(|()| bytes)
    }

    /// Whether a client sent it (`RESTORE`), which may be anything; not a file, a primary, or the node that a slot comes from. (A
    /// replica that clients may write to can't tell its primary from them, and takes all for its primary's.)
    pub(crate) fn is_from_client(&self) -> bool {
        const TOLD: u32 = raw::REDISMODULE_CTX_FLAGS_LOADING
            | raw::REDISMODULE_CTX_FLAGS_ASYNC_LOADING
            | raw::REDISMODULE_CTX_FLAGS_SLAVE;
        // SAFETY: without a context the server tells of itself, and of no client.
        let flags = unsafe { api!(RedisModule_GetContextFlags(std::ptr::null_mut())) }.cast_unsigned();
        flags & TOLD == 0 && !self.slot_arrives()
    }

    /// Whether the key is in a slot that comes in one step, by `RESTORE` (Redis 8.4 and later). Only then can a key be made in a slot
    /// that is not this node's: clients are sent to the node that has it. (The older way, key by key, has clients send it. Valkey 9
    /// runs the commands that an append-only file would have.)
    fn slot_arrives(&self) -> bool {
        // SAFETY: the table of functions is only written while the module loads.
        let slot_of = unsafe { raw::RedisModule_ClusterKeySlot };
        // SAFETY: as above.
        let is_ours = unsafe { raw::RedisModule_ClusterCanAccessKeysInSlot };
        let (Some(slot_of), Some(is_ours)) = (slot_of, is_ours) else { return false };
        // SAFETY: as in `unsigned`; the server answers the name of the key, or null.
        let key = unsafe { api!(RedisModule_GetKeyNameFromIO(self.0)) };
        if key.is_null() {
            return false;
        }
        // SAFETY: the server's own string, which outlives the callback.
        let slot = unsafe { slot_of(key.cast_mut()) }.cast_signed();
        // SAFETY: the function takes any number.
        unsafe { is_ours(slot) == 0 }
    }

    /// The context of the callback, whose client is nobody.
    pub(super) fn context(&self) -> *mut raw::RedisModuleCtx {
        // SAFETY: as in `unsigned`; the server frees the context after the callback.
        unsafe { api!(RedisModule_GetContextFromIO(self.0)) }
    }

    fn check(&self) -> Result<(), Truncated> {
        // SAFETY: as in `unsigned`.
        let failed = unsafe { api!(RedisModule_IsIOError(self.0)) };
        if failed == 0 { Ok(()) } else { Err(Truncated) }
    }
}
