//! `LOCK.MRELEASE numkeys key [key ...] owner [ALL] [FENCE fence]`
//!
//! Releases one hold, or with `ALL` all holds, of each of these locks that the owner holds. For each lock, replies with the number of holds
//! that are left, or null if the owner does not hold the lock.

use super::parse;
use super::release::{self, ReleaseArgs};
use crate::error::Error;
use crate::server::{Arg, Args, Change, Command, Ctx, Definition, KeyUse, Keys};
use crate::serving;

pub(crate) struct Mrelease<'a> {
    pub(super) keys: Vec<Arg<'a>>,
    pub(super) given: ReleaseArgs<'a>,
}

impl Command for Mrelease<'_> {
    const DEFINITION: Definition = Definition {
        name: c"lock.mrelease",
        summary: c"Releases one hold of each of several locks, or all of them.",
        complexity: c"O(K) for K locks if nobody else holds them or waits. O(K log H) for H holders, and O(K log N) for N waiters.",
        since: c"0.1.0",
        flags: c"write",
        acl: &[c"write", c"slow", c"lock"],
        tips: c"",
        key: KeyUse { keys: Keys::Counted, tells: true, change: Some(Change::Delete) },
        arguments: &[parse::NUMKEYS, parse::KEYS, parse::OWNER, release::ALL, parse::FENCE],
    };
    type Error = Error;

    fn run(ctx: &Ctx<'_>, args: Args<'_>) -> Result<(), Error> {
        Mrelease::parse(args)?.apply(ctx)
    }
}

impl<'a> Mrelease<'a> {
    pub(super) fn parse(args: Args<'a>) -> Result<Self, Error> {
        let (keys, words) = parse::keys(args)?;
        Ok(Self { keys, given: ReleaseArgs::parse(words)? })
    }

    fn apply(self, ctx: &Ctx<'_>) -> Result<(), Error> {
        let left = serving::release_all(ctx, &self.keys, self.given.asked())?;
        ctx.reply_array(left.len());
        for holds in left {
            match holds {
                Ok(holds) => ctx.reply_integer(holds.into()),
                Err(_) => ctx.reply_null(),
            }
        }
        Ok(())
    }
}
