//! Commands: the trait, the callback by which the server runs them, and their arguments.

use std::ffi::CStr;
use std::marker::PhantomData;
use std::ops::RangeInclusive;
use std::slice;

use redis_module::raw;

use super::callback::guard;
use super::definition::Keys;
use super::{Ctx, Definition};

/// An error that can be sent to the client: a code in capitals, a space and a text.
pub(crate) trait ErrorReply {
    fn send(&self, ctx: &Ctx<'_>);
}

pub(crate) trait Command {
    const DEFINITION: Definition;
    type Error: ErrorReply;

    /// Replies to the command, or returns an error. A command that returns an error must not have replied, or done what the client asked.
    fn run(ctx: &Ctx<'_>, args: Args<'_>) -> Result<(), Self::Error>;
}

/// A command in the table of what the module adds to the server (`Module`).
pub(crate) struct CommandSpec {
    pub(super) definition: &'static Definition,
    pub(super) call:
        unsafe extern "C" fn(*mut raw::RedisModuleCtx, *mut *mut raw::RedisModuleString, i32) -> i32,
}

impl CommandSpec {
    pub(crate) const fn of<C: Command>() -> Self {
        Self { definition: &C::DEFINITION, call: call::<C> }
    }
}

/// Runs a command, or, if the server asks for the positions of the command's keys, tells the server these positions.
///
/// # Safety
/// Only the server calls this function, with a context and `argc` strings that are valid until it returns.
unsafe extern "C" fn call<C: Command>(
    ctx: *mut raw::RedisModuleCtx,
    argv: *mut *mut raw::RedisModuleString,
    argc: i32,
) -> i32 {
    // SAFETY: the server gave the context to this callback.
    let ctx = unsafe { Ctx::new(ctx) };
    // SAFETY: the server's own argument vector, valid until this callback returns.
    let args = unsafe { Args::new(argv, argc) };
    if matches!(C::DEFINITION.key.keys, Keys::Counted | Keys::After(_)) && ctx.asks_for_keys() {
        guard(C::DEFINITION.name, || tell_keys(&ctx, args, &C::DEFINITION));
        return raw::REDISMODULE_OK as i32;
    }
    let done = guard(C::DEFINITION.name, || {
        if let Err(error) = C::run(&ctx, args) {
            error.send(&ctx);
        }
    });
    if done.is_none() {
        // The error reply has its own guard: if the panic came from sending a reply, sending the error may panic, too.
        guard(c"error-reply", || ctx.reply_error(c"ERR internal error"));
    }
    raw::REDISMODULE_OK as i32
}

/// Tells the server which arguments are keys. If there are fewer arguments than keys, names no key.
fn tell_keys(ctx: &Ctx<'_>, args: Args<'_>, definition: &Definition) {
    let keys = match definition.key.keys {
        Keys::After(word) => key_after(args, word),
        _ => counted_keys(args),
    };
    for position in keys.into_iter().flatten() {
        ctx.tell_key(position, definition.key.access());
    }
}

/// Returns the positions of the keys of a command whose first argument is the number of its keys; `None` if this is not a number, or fewer
/// arguments follow.
fn counted_keys(args: Args<'_>) -> Option<RangeInclusive<usize>> {
    let last = usize::try_from(args.get(1)?.integer()?).ok()?.checked_add(1)?;
    args.get(last).map(|_| 2..=last)
}

/// Returns the position of the argument that follows the first occurrence of this word. By the command's key spec, the server looks for the
/// key at the same position.
fn key_after(args: Args<'_>, word: &CStr) -> Option<RangeInclusive<usize>> {
    let before = args.skip(1).position(|arg| arg.bytes().eq_ignore_ascii_case(word.to_bytes()))?;
    let position = before.checked_add(2)?;
    args.get(position).map(|_| position..=position)
}

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
