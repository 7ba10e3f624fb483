//! Commands: how they are registered, and how the server calls them.

use std::ffi::CStr;
use std::ops::RangeInclusive;

use redis_module::raw;

use super::guard::guard;
use super::{Args, Ctx};

/// A refusal, as the client sees it: a code in capitals, a space, a text.
pub(crate) trait ErrorReply {
    fn send(&self, ctx: &Ctx<'_>);
}

/// A command of the module.
pub(crate) trait Command {
    /// Its name, as `COMMAND INFO` shows it (in any case; the server folds it).
    const NAME: &'static CStr;
    /// The server's own words for what it does (`write`, `readonly`, `deny-oom`, `fast`, ...).
    const FLAGS: &'static CStr;
    /// The server's own ACL categories for it; where the server takes none from a module (Redis 7.0), it has none.
    const ACL: &'static CStr;
    /// How many arguments it takes, its name included.
    const ARITY: RangeInclusive<usize>;
    type Error: ErrorReply;

    /// Answers the command, or says why it is refused; then nothing has been sent yet, and nothing changed.
    fn run(ctx: &Ctx<'_>, args: Args<'_>) -> Result<(), Self::Error>;
}

/// What the table of commands holds: a command ready to be registered.
pub(crate) struct CommandSpec {
    pub(super) name: &'static CStr,
    pub(super) flags: &'static CStr,
    pub(super) acl: &'static CStr,
    pub(super) call:
        unsafe extern "C" fn(*mut raw::RedisModuleCtx, *mut *mut raw::RedisModuleString, i32) -> i32,
}

impl CommandSpec {
    /// The command, whose one key is its first argument.
    pub(crate) const fn of<C: Command>() -> Self {
        Self { name: C::NAME, flags: C::FLAGS, acl: C::ACL, call: call::<C> }
    }
}

/// What the server calls for a command.
///
/// # Safety
/// Called by the server, with a context and `argc` strings that are valid until it returns.
unsafe extern "C" fn call<C: Command>(
    ctx: *mut raw::RedisModuleCtx,
    argv: *mut *mut raw::RedisModuleString,
    argc: i32,
) -> i32 {
    // SAFETY: the server gave it to this callback.
    let ctx = unsafe { Ctx::new(ctx) };
    // SAFETY: the server's own argument vector, valid until this callback returns.
    let args = unsafe { Args::new(argv, argc) };
    let done = guard(|| {
        if !C::ARITY.contains(&args.len()) {
            return ctx.reply_wrong_arity();
        }
        if let Err(error) = C::run(&ctx, args) {
            error.send(&ctx);
        }
    });
    if done.is_none() {
        // Its own guard: the reply itself may be what is missing.
        guard(|| ctx.reply_error(c"ERR internal error"));
    }
    raw::REDISMODULE_OK as i32
}
