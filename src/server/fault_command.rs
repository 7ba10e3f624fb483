//! `LOCK.FAULT [callback]`, which only debug builds have, for tests.
//!
//! Makes a callback of the module panic at its next call, before the callback does anything. The argument is the name of the callback:
//! `lock.release`, `reply`, `due-work`, `rdb-save`, ... Replies with the name of the callback that has yet to panic, or with an empty text
//! if no callback has to.

use super::faults::armed;
use super::{Arg, Args, Argument, Command, Ctx, Definition, ErrorReply, KeyUse, Keys};

pub(crate) struct Fault;

/// The error type of a command that never fails.
pub(crate) enum Never {}

impl ErrorReply for Never {
    fn send(&self, _ctx: &Ctx<'_>) {}
}

impl Command for Fault {
    const DEFINITION: Definition = Definition {
        name: c"lock.fault",
        summary: c"Has the next callback of that name panic, for tests.",
        complexity: c"O(1)",
        since: c"0.1.0",
        flags: c"admin",
        acl: &[c"admin", c"dangerous"],
        tips: c"",
        key: KeyUse { keys: Keys::First, tells: false, change: None },
        arguments: &[Argument::text(c"callback").optional()],
    };
    type Error = Never;

    fn run(ctx: &Ctx<'_>, args: Args<'_>) -> Result<(), Never> {
        let mut armed = armed();
        if let Some(callback) = args.get(1).map(Arg::bytes) {
            *armed = callback.to_vec();
        }
        ctx.reply_bytes(&armed);
        Ok(())
    }
}
