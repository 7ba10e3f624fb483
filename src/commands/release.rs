//! `LOCK.RELEASE key owner [ALL] [FENCE fence]`
//!
//! Answers the holds left: 0 means free, or gone to the next waiter. Never changes the lease.

use super::parse;
use crate::error::Error;
use crate::lock::Owner;
use crate::server::{Arg, Args, Argument, Change, Command, Ctx, Definition, KeyUse};
use crate::serving;

pub(crate) struct Release<'a> {
    key: Arg<'a>,
    pub(super) owner: Owner<'a>,
    all: bool,
    pub(super) fence: Option<u64>,
}

impl Command for Release<'_> {
    const DEFINITION: Definition = Definition {
        name: c"lock.release",
        summary: c"Gives back one hold of a lock, or all.",
        complexity: c"O(1), and O(log N) for N waiters.",
        since: c"0.1.0",
        flags: c"write fast",
        acl: &[c"write", c"fast", c"lock"],
        tips: c"",
        key: KeyUse { tells: true, change: Some(Change::Delete) },
        arguments: &[Argument::KEY, Argument::text(c"owner"), Argument::flag(c"all", c"ALL"), parse::FENCE],
    };
    type Error = Error;

    fn run(ctx: &Ctx<'_>, args: Args<'_>) -> Result<(), Error> {
        Release::parse(args)?.apply(ctx)
    }
}

impl<'a> Release<'a> {
    pub(super) fn parse(args: Args<'a>) -> Result<Self, Error> {
        let key = parse::required(args, 1)?;
        let owner = parse::required(args, 2)?;
        let (mut all, mut fence) = (None, None);
        let mut words = args.skip(3);
        while let Some(word) = words.next().map(Arg::bytes) {
            if parse::is(word, "ALL") {
                parse::set(&mut all, ())?;
            } else if parse::is(word, "FENCE") {
                parse::set(&mut fence, parse::value(&mut words)?)?;
            } else {
                return Err(Error::Syntax);
            }
        }
        Ok(Self {
            key,
            owner: parse::owner(owner)?,
            all: all.is_some(),
            fence: fence.map(parse::fence).transpose()?,
        })
    }

    fn apply(self, ctx: &Ctx<'_>) -> Result<(), Error> {
        let left = serving::release(ctx, self.key, &self.owner, self.fence, self.all)?;
        ctx.reply_integer(left.into());
        Ok(())
    }
}
