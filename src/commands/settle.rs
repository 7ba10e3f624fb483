//! `LOCK.SETTLE key`
//!
//! What an alarm runs: `serving::SETTLE` says why it is a command. Refused from clients.

use super::parse;
use crate::error::Error;
use crate::server::{Args, Argument, Change, Command, Ctx, Definition, KeyUse};
use crate::serving;

pub(crate) struct Settle;

impl Command for Settle {
    const DEFINITION: Definition = Definition {
        name: serving::SETTLE,
        summary: c"The module's own, refused from clients: hands a lock over by timer.",
        complexity: c"O(log N) for N waiters.",
        since: c"0.1.0",
        flags: c"write fast",
        acl: &[c"write", c"fast", c"admin", c"dangerous"],
        tips: c"",
        key: KeyUse { tells: false, change: Some(Change::Update) },
        arguments: &[Argument::KEY],
    };
    type Error = Error;

    fn run(ctx: &Ctx<'_>, args: Args<'_>) -> Result<(), Error> {
        serving::settle(ctx, parse::required(args, 1)?)?;
        ctx.reply_status(c"OK");
        Ok(())
    }
}
