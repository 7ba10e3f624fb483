//! `LOCK.LEAVE key owner`
//!
//! Gives up the owner's place in the queue (taken with `NOTIFY`), or the unclaimed grant that the place has got. Replies with 1, or with 0
//! if the owner has neither.

use super::parse;
use crate::error::Error;
use crate::server::{Arg, Args, Argument, Change, Command, Ctx, Definition, KeyUse, Keys};
use crate::serving;
use rules::lock::Owner;

pub(crate) struct Leave<'a> {
    key: Arg<'a>,
    pub(super) owner: Owner<'a>,
}

impl Command for Leave<'_> {
    const DEFINITION: Definition = Definition {
        name: c"lock.leave",
        summary: c"Gives up a place in the queue of a lock, or a grant that has not been claimed.",
        complexity: c"O(log H) for H holders, and O(log N) for N waiters.",
        since: c"0.1.0",
        flags: c"write fast",
        acl: &[c"write", c"fast", c"lock"],
        tips: c"",
        key: KeyUse { keys: Keys::First, tells: true, change: Some(Change::Delete) },
        arguments: &[Argument::KEY, Argument::text(c"owner")],
    };
    type Error = Error;

    fn run(ctx: &Ctx<'_>, args: Args<'_>) -> Result<(), Error> {
        let Leave { key, owner } = Leave::parse(args)?;
        let left = serving::leave(ctx, key, &owner)?;
        ctx.reply_integer(left.into());
        Ok(())
    }
}

impl<'a> Leave<'a> {
    pub(super) fn parse(args: Args<'a>) -> Result<Self, Error> {
        if let Some(word) = args.get(3) {
            return Err(Error::syntax(Some(word)));
        }
        Ok(Self {
            key: parse::required(args, 1, "key")?,
            owner: parse::owner(parse::required(args, 2, "owner")?)?,
        })
    }
}
