//! `LOCK.SETTLE waiter key [key ...]`
//!
//! Brings the grants and the queues of locks up to date, and hands the locks to their waiters. Timers and `LOCK.LEAVE` run this command,
//! and clients may not send it. `serving::SETTLE` says why this is a command, and explains the arguments.

use std::num::NonZeroU64;

use super::parse;
use crate::error::Error;
use crate::server::{Arg, Args, Argument, Change, Command, Ctx, Definition, KeyUse, Keys};
use crate::serving;
use rules::waiting::RequestId;

pub(crate) struct Settle;

impl Command for Settle {
    const DEFINITION: Definition = Definition {
        name: serving::SETTLE,
        summary: c"Internal, refused from clients: hands locks over by timer.",
        complexity: c"O(K log N) for K locks and N waiters.",
        since: c"0.1.0",
        flags: c"write fast",
        acl: &[c"write", c"fast", c"admin", c"dangerous"],
        tips: c"",
        key: KeyUse { keys: Keys::FromSecond, tells: false, change: Some(Change::Update) },
        arguments: &[Argument::integer(c"waiter"), parse::KEYS],
    };
    type Error = Error;

    fn run(ctx: &Ctx<'_>, args: Args<'_>) -> Result<(), Error> {
        let waiter = parse::required(args, 1, "waiter")?;
        let number = waiter.integer().ok_or_else(|| Error::syntax(Some(waiter)))?;
        let keys: Vec<Arg<'_>> = args.skip(2).collect();
        let waiter = u64::try_from(number).ok().and_then(NonZeroU64::new);
        serving::settle(ctx, &keys, waiter.map(RequestId))?;
        ctx.reply_status(c"OK");
        Ok(())
    }
}
