//! The trait for commands, and the callback by which the server runs them.

use std::ffi::CStr;
use std::ops::RangeInclusive;

use redis_module::raw;

use super::definition::Keys;
use super::guard::guard;
use super::{Args, Ctx, Definition};

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
