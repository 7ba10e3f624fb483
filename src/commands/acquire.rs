//! `LOCK.ACQUIRE key [OWNER owner] [EX seconds | PX milliseconds] [SHARED | LIMIT holders [SLOT slot]] [BLOCK milliseconds] [NOTIFY channel
//! [START number] [WANTED]] [ONCE] [SESSION] [MAXHOLD milliseconds] [DETECT] [SYNC replicas milliseconds] [LABEL text]`
//!
//! Replies with `[owner, fence, holds, lease in ms]`. With `LIMIT`, the reply ends with the slot (the number of the permit). The reply is
//! null if the owner can't have the lock now, or, with `BLOCK`, not before the time is up. With `BLOCK` and `NOTIFY`, a request that has to
//! wait gets the reply `QUEUED`.

use super::ask::{self, AcquireArgs};
use super::parse::{self, Words};
use crate::error::Error;
use crate::server::{Arg, Args, Argument, Change, Command, Ctx, Definition, KeyUse, Keys};
use crate::serving;

pub(crate) struct Acquire<'a> {
    key: Arg<'a>,
    pub(super) asked: AcquireArgs<'a>,
}

impl Command for Acquire<'_> {
    const DEFINITION: Definition = Definition {
        name: c"lock.acquire",
        summary: c"Acquires a lock, re-enters it, or waits for it.",
        complexity: c"O(1) if nobody else holds the lock or waits. O(log H) for H holders, and O(log N) for N waiters and sessions.",
        since: c"0.1.0",
        flags: c"write deny-oom blocking",
        acl: &[c"write", c"slow", c"blocking", c"lock"],
        tips: c"nondeterministic_output",
        key: KeyUse { keys: Keys::First, tells: true, change: Some(Change::Update) },
        arguments: &[
            Argument::KEY,
            ask::OWNER,
            parse::LEASE,
            parse::ROOM,
            ask::BLOCK,
            ask::NOTIFY,
            ask::ONCE,
            ask::SESSION,
            ask::MAX_HOLD,
            ask::DETECT,
            parse::SYNC,
            ask::LABEL,
        ],
    };
    type Error = Error;

    fn run(ctx: &Ctx<'_>, args: Args<'_>) -> Result<(), Error> {
        Acquire::parse(args)?.apply(ctx)
    }
}

impl<'a> Acquire<'a> {
    pub(super) fn parse(args: Args<'a>) -> Result<Self, Error> {
        let key = parse::required(args, 1, "key")?;
        Ok(Self { key, asked: AcquireArgs::parse(Words::new(args, 2), "lock.acquire")? })
    }

    fn apply(self, ctx: &Ctx<'_>) -> Result<(), Error> {
        let Self { key, mut asked } = self;
        let now = serving::now();
        let outcome = serving::acquire(ctx, key, &asked.ask, &mut asked.wait, now)?;
        asked.reply(ctx, outcome, |owner, (got, until)| {
            serving::reply_grant(ctx, owner, got, until.left(now.start))
        });
        Ok(())
    }
}
