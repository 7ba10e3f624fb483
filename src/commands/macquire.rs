//! `LOCK.MACQUIRE numkeys key [key ...] [OWNER owner] [EX seconds | PX milliseconds] [SHARED | LIMIT holders [SLOT slot]] [BLOCK
//! milliseconds] [NOTIFY channel [WANTED]] [ONCE] [SESSION] [MAXHOLD milliseconds] [DETECT] [SYNC replicas milliseconds] [LABEL text]`
//!
//! Acquires the locks of all named keys, or no lock. Replies with `[owner, fences, holds, lease in ms]`, where fences and holds are in the
//! order of the keys. In all other respects, the command is like `LOCK.ACQUIRE`.

use super::ask::{self, AcquireArgs};
use super::parse;
use crate::error::Error;
use crate::server::{Arg, Args, Change, Command, Ctx, Definition, KeyUse, Keys};
use crate::serving;

pub(crate) struct Macquire<'a> {
    pub(super) keys: Vec<Arg<'a>>,
    pub(super) asked: AcquireArgs<'a>,
}

impl Command for Macquire<'_> {
    const DEFINITION: Definition = Definition {
        name: c"lock.macquire",
        summary: c"Acquires several locks at once, all or none, or waits for all of them.",
        complexity: c"O(K) for K locks if nobody else holds them or waits. O(K log H) for H holders, and O(K log N) for N waiters and sessions.",
        since: c"0.1.0",
        flags: c"write deny-oom blocking",
        acl: &[c"write", c"slow", c"blocking", c"lock"],
        tips: c"nondeterministic_output",
        key: KeyUse { keys: Keys::Counted, tells: true, change: Some(Change::Update) },
        arguments: &[
            parse::NUMKEYS,
            parse::KEYS,
            ask::OWNER,
            parse::LEASE,
            parse::ROOM,
            ask::BLOCK,
            ask::NOTIFY_OF_SEVERAL,
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
        Macquire::parse(args)?.apply(ctx)
    }
}

impl<'a> Macquire<'a> {
    pub(super) fn parse(args: Args<'a>) -> Result<Self, Error> {
        let (keys, words) = parse::keys(args)?;
        let asked = AcquireArgs::parse(words, "lock.macquire")?;
        // The message `start` has room for only one fence and one slot, so `START` is for one lock only.
        match asked.wait.channel.as_ref().is_some_and(|channel| channel.start.is_some()) {
            true => Err(Error::Syntax("START".into())),
            false => Ok(Self { keys, asked }),
        }
    }

    fn apply(self, ctx: &Ctx<'_>) -> Result<(), Error> {
        let Self { keys, mut asked } = self;
        let now = serving::now();
        let outcome = serving::acquire_all(ctx, &keys, &asked.ask, &mut asked.wait, now)?;
        asked.reply(ctx, outcome, |owner, (all, until)| {
            serving::reply_grants(ctx, owner, &all, until.left(now.start))
        });
        Ok(())
    }
}
