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

    fn check(&self) -> Result<(), Truncated> {
        // SAFETY: as in `unsigned`.
        let failed = unsafe { api!(RedisModule_IsIOError(self.0)) };
        if failed == 0 { Ok(()) } else { Err(Truncated) }
    }
}
