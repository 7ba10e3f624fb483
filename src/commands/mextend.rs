//! `LOCK.MEXTEND numkeys key [key ...] owner [EX seconds | PX milliseconds] [FENCE fence] [SYNC replicas milliseconds]`
//!
//! Sets the lease of each lock to the given length, counted from now. If the command can't set one of the leases, it sets none. Replies
//! with the length in ms of the lease that ends first.

use super::extend::ExtendRequest;
use super::parse;
use crate::error::Error;
use crate::server::{Arg, Args, Change, Command, Ctx, Definition, KeyUse, Keys};
use crate::serving;

pub(crate) struct Mextend<'a> {
    pub(super) keys: Vec<Arg<'a>>,
    pub(super) longer: ExtendRequest<'a>,
}

impl Command for Mextend<'_> {
    const DEFINITION: Definition = Definition {
        name: c"lock.mextend",
        summary: c"Sets the leases of several held locks, counted from now: of all, or of none.",
        complexity: c"O(K) for K locks if nobody else holds them. O(K log H) for H holders, and O(K log N) for N locks with waiters or a session.",
        since: c"0.1.0",
        flags: c"write blocking",
        acl: &[c"write", c"slow", c"blocking", c"lock"],
        tips: c"nondeterministic_output",
        key: KeyUse { keys: Keys::Counted, tells: false, change: Some(Change::Update) },
        arguments: &[parse::NUMKEYS, parse::KEYS, parse::OWNER, parse::LEASE, parse::FENCE, parse::SYNC],
    };
    type Error = Error;

    fn run(ctx: &Ctx<'_>, args: Args<'_>) -> Result<(), Error> {
        Mextend::parse(args)?.apply(ctx)
    }
}

impl<'a> Mextend<'a> {
    pub(super) fn parse(args: Args<'a>) -> Result<Self, Error> {
        let (keys, words) = parse::keys(args)?;
        Ok(Self { keys, longer: ExtendRequest::parse(words, "lock.mextend")? })
    }

    fn apply(self, ctx: &Ctx<'_>) -> Result<(), Error> {
        let now = serving::now();
        let outcome = serving::extend(ctx, &self.keys, true, &self.longer.asked(), now)?;
        ExtendRequest::reply(ctx, outcome, now);
        Ok(())
    }
}
