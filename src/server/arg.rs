//! Arguments of a command.

use std::marker::PhantomData;
use std::slice;

use redis_module::raw;

/// All arguments of a command. The first is its name.
#[derive(Clone, Copy)]
pub(crate) struct Args<'a>(&'a [*mut raw::RedisModuleString]);

impl<'a> Args<'a> {
    /// # Safety
    /// `argv` points to `argc` strings that stay valid for `'a`.
    pub(super) unsafe fn new(argv: *mut *mut raw::RedisModuleString, argc: i32) -> Self {
        let count = usize::try_from(argc).unwrap_or(0);
        if argv.is_null() || count == 0 {
            return Self(&[]);
        }
        // SAFETY: the caller promises that the array has this many valid strings.
        Self(unsafe { slice::from_raw_parts(argv, count) })
    }

    /// Returns the arguments after the first `count`.
    pub(crate) fn skip(self, count: usize) -> impl Iterator<Item = Arg<'a>> {
        self.0.iter().skip(count).map(|&string| Arg { string, life: PhantomData })
    }

    /// Returns the argument at this position, if there is one; the command's name is at 0.
    pub(crate) fn get(self, position: usize) -> Option<Arg<'a>> {
        self.0.get(position).map(|&string| Arg { string, life: PhantomData })
    }
}

impl AsRef<[u8]> for Arg<'_> {
    fn as_ref(&self) -> &[u8] {
        self.bytes()
    }
}

/// A server's string (`RedisModuleString`) that is lent to the module, such as an argument of a command or the name of a key.
#[derive(Clone, Copy)]
pub(crate) struct Arg<'a> {
    string: *mut raw::RedisModuleString,
    life: PhantomData<&'a ()>,
}

impl<'a> Arg<'a> {
    /// # Safety
    /// The string stays valid for `'a`.
    pub(super) unsafe fn new(string: *mut raw::RedisModuleString) -> Self {
        Self { string, life: PhantomData }
    }

    pub(super) fn raw(self) -> *mut raw::RedisModuleString {
        self.string
    }

    pub(crate) fn bytes(self) -> &'a [u8] {
        let mut len = 0;
        // SAFETY: the string is valid (see `new`), and `len` is ours to write to.
        let start = unsafe { api!(RedisModule_StringPtrLen(self.string, &raw mut len)) };
        if start.is_null() {
            return &[];
        }
        // SAFETY: the server returned the string's own buffer of `len` bytes, which nobody changes while the string lives.
        unsafe { slice::from_raw_parts(start.cast(), len) }
    }

    /// Returns the integer that the argument spells by the server's rules; `None` if the argument spells no integer.
    pub(crate) fn integer(self) -> Option<i64> {
        let mut value = 0;
        // SAFETY: the string is valid (see `new`), and `value` is ours to write to.
        let status = unsafe { api!(RedisModule_StringToLongLong(self.string, &raw mut value)) };
        (status == raw::REDISMODULE_OK as i32).then_some(value)
    }
}

/// A server's string that belongs to the module. Dropping this value frees the string.
pub(crate) struct OwnString(*mut raw::RedisModuleString);

impl OwnString {
    pub(crate) fn new(bytes: &[u8]) -> Self {
        // SAFETY: the server copies the bytes into a string that is ours, and without a context, nobody else frees the string.
        Self(unsafe {
            api!(RedisModule_CreateString(std::ptr::null_mut(), bytes.as_ptr().cast(), bytes.len()))
        })
    }

    pub(crate) fn arg(&self) -> Arg<'_> {
        // SAFETY: the string lives as long as `self`.
        unsafe { Arg::new(self.0) }
    }
}

impl Drop for OwnString {
    fn drop(&mut self) {
        // SAFETY: the string is ours. If a key that was opened by this name is still open, that key has its own reference to the string.
        unsafe { api!(RedisModule_FreeString(std::ptr::null_mut(), self.0)) };
    }
}
