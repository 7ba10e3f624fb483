//! Stands in for the server in fuzzers. This file has the few functions of the module API that parsers and loaders call, for strings and
//! for a stream of numbers and byte strings.

use std::ffi::{c_char, c_int, c_longlong, c_void};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

use redis_module::raw;

use super::{Args, RdbReader, RdbWriter};

/// A number or a byte string in a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Item {
    Number(u64),
    Bytes(Vec<u8>),
}

/// A stream from which a value is read, or to which a value is written.
#[derive(Default)]
pub(crate) struct Stream {
    pub(crate) items: Vec<Item>,
    /// Whether a client sends the stream (`RESTORE`). Otherwise the stream is a file.
    pub(crate) is_from_client: bool,
    next: usize,
    failed: bool,
}

/// Whether the stream that is being read comes from a client.
static IS_FROM_CLIENT: AtomicBool = AtomicBool::new(false);

impl Stream {
    pub(crate) fn new(items: Vec<Item>) -> Self {
        Self { items, ..Self::default() }
    }

    /// Makes a stream from any bytes. Each item begins with a byte for its kind. A number follows as eight bytes, a byte string as its
    /// length in one byte, and its bytes.
    pub(crate) fn from_bytes(mut bytes: &[u8]) -> Self {
        let mut items = Vec::new();
        while let Some((kind, rest)) = bytes.split_first() {
            let len = if kind % 2 == 0 { 8 } else { rest.first().map_or(0, |&len| len.into()) };
            let rest = if kind % 2 == 0 { rest } else { rest.get(1..).unwrap_or_default() };
            let (item, rest) = rest.split_at(len.min(rest.len()));
            items.push(match item.try_into() {
                Ok(eight) if kind % 2 == 0 => Item::Number(u64::from_le_bytes(eight)),
                _ => Item::Bytes(item.to_vec()),
            });
            bytes = rest;
        }
        Self::new(items)
    }

    pub(crate) fn read<R>(&mut self, body: impl FnOnce(&mut RdbReader) -> R) -> R {
        install();
        IS_FROM_CLIENT.store(self.is_from_client, Ordering::Relaxed);
        body(&mut RdbReader(std::ptr::from_mut(self).cast()))
    }

    pub(crate) fn write(&mut self, body: impl FnOnce(&mut RdbWriter)) {
        install();
        body(&mut RdbWriter(std::ptr::from_mut(self).cast()));
    }

    fn take(&mut self) -> Option<Item> {
        let item = self.items.get(self.next).cloned();
        self.next += 1;
        self.failed |= item.is_none();
        item
    }
}

/// Runs `body` with the arguments of a command that has these words.
pub(crate) fn with_args<R>(words: &[&[u8]], body: impl FnOnce(Args<'_>) -> R) -> R {
    install();
    let mut strings: Vec<*mut raw::RedisModuleString> =
        words.iter().map(|word| std::ptr::from_ref(word).cast_mut().cast()).collect();
    // SAFETY: there are as many pointers as words, and `words` outlives the body.
    body(unsafe { Args::new(strings.as_mut_ptr(), strings.len() as i32) })
}

fn install() {
    static ONCE: Once = Once::new();
    // SAFETY: the table is written once, as when a server loads the module, before anything reads it. Each function gets only pointers that
    // `with_args`, a `Stream` or another of these functions made.
    ONCE.call_once(|| unsafe {
        raw::RedisModule_StringPtrLen = Some(string_bytes);
        raw::RedisModule_StringToLongLong = Some(string_number);
        raw::RedisModule_LoadUnsigned = Some(load_number);
        raw::RedisModule_LoadStringBuffer = Some(load_bytes);
        raw::RedisModule_IsIOError = Some(has_failed);
        raw::RedisModule_GetContextFlags = Some(context_flags);
        raw::RedisModule_SaveUnsigned = Some(save_number);
        raw::RedisModule_SaveStringBuffer = Some(save_bytes);
        raw::RedisModule_Free = Some(free);
    });
}

unsafe extern "C" {
    fn malloc(size: usize) -> *mut c_void;
    fn free(memory: *mut c_void);
}

unsafe extern "C" fn string_bytes(string: *const raw::RedisModuleString, len: *mut usize) -> *const c_char {
    // SAFETY: the pointer points to one of the byte strings that `with_args` has passed as the arguments of the command.
    let word = unsafe { *string.cast::<&[u8]>() };
    // SAFETY: the caller gave a valid place for the length.
    unsafe { *len = word.len() };
    word.as_ptr().cast()
}

/// Reads a number by the server's rules: without leading zeros or blanks, and with no sign but `-`.
unsafe extern "C" fn string_number(string: *const raw::RedisModuleString, to: *mut c_longlong) -> c_int {
    // SAFETY: the pointer points to one of the byte strings that `with_args` has passed as the arguments of the command.
    let word = unsafe { *string.cast::<&[u8]>() };
    let number = std::str::from_utf8(word).ok().and_then(|text| text.parse::<i64>().ok());
    match number.filter(|number| number.to_string().as_bytes() == word) {
        Some(number) => {
            // SAFETY: the caller gave a valid place for the number.
            unsafe { *to = number };
            raw::REDISMODULE_OK as c_int
        }
        None => raw::REDISMODULE_ERR as c_int,
    }
}

/// # Safety
/// `io` is the pointer that `Stream::read` or `Stream::write` gave, and that function still runs.
unsafe fn stream<'a>(io: *mut raw::RedisModuleIO) -> &'a mut Stream {
    // SAFETY: the caller promises a pointer to a `Stream`, and the reader or writer that has the pointer does nothing else with it.
    unsafe { &mut *io.cast::<Stream>() }
}

unsafe extern "C" fn load_number(io: *mut raw::RedisModuleIO) -> u64 {
    // SAFETY: the module passes the pointer that `Stream::read` gave.
    let stream = unsafe { stream(io) };
    match stream.take() {
        Some(Item::Number(number)) => number,
        _ => {
            stream.failed = true;
            0
        }
    }
}

unsafe extern "C" fn load_bytes(io: *mut raw::RedisModuleIO, len: *mut usize) -> *mut c_char {
    // SAFETY: the module passes the pointer that `Stream::read` gave.
    let stream = unsafe { stream(io) };
    let Some(Item::Bytes(bytes)) = stream.take() else {
        stream.failed = true;
        return std::ptr::null_mut();
    };
    // SAFETY: the caller gave a valid place for the length.
    unsafe { *len = bytes.len() };
    // SAFETY: any size is allowed, and the caller frees the memory.
    let buffer = unsafe { malloc(bytes.len().max(1)) };
    // SAFETY: the buffer has room for all of `bytes`.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), buffer.cast(), bytes.len()) };
    buffer.cast()
}

unsafe extern "C" fn has_failed(io: *mut raw::RedisModuleIO) -> c_int {
    // SAFETY: the module passes the pointer that `Stream::read` gave.
    c_int::from(unsafe { stream(io) }.failed)
}

/// Returns the flags of a context: the server is loading, unless a client sends the stream.
unsafe extern "C" fn context_flags(_ctx: *mut raw::RedisModuleCtx) -> c_int {
    if IS_FROM_CLIENT.load(Ordering::Relaxed) { 0 } else { raw::REDISMODULE_CTX_FLAGS_LOADING as c_int }
}

unsafe extern "C" fn save_number(io: *mut raw::RedisModuleIO, number: u64) {
    // SAFETY: the module passes the pointer that `Stream::write` gave.
    unsafe { stream(io) }.items.push(Item::Number(number));
}

unsafe extern "C" fn save_bytes(io: *mut raw::RedisModuleIO, bytes: *const c_char, len: usize) {
    // SAFETY: the module says how many bytes there are.
    let bytes = unsafe { std::slice::from_raw_parts(bytes.cast::<u8>(), len) };
    // SAFETY: the module passes the pointer that `Stream::write` gave.
    unsafe { stream(io) }.items.push(Item::Bytes(bytes.to_vec()));
}
