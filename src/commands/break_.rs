//! `LOCK.BREAK key [FENCE fence]`
//!
//! For operators: ends the grant with this fence, or all grants, whoever holds them, and hands the lock to the next waiters. Replies with
//! the number of grants that it has ended.

use super::parse::{self, Words};
use crate::error::Error;
use crate::server::{Arg, Args, Argument, Change, Command, Ctx, Definition, KeyUse, Keys, LogLevel};
use crate::serving;

pub(crate) struct Break<'a> {
    key: Arg<'a>,
    pub(super) fence: Option<u64>,
}

impl Command for Break<'_> {
    const DEFINITION: Definition = Definition {
        name: c"lock.break",
        summary: c"For operators: ends the grants of a lock, whoever holds it.",
        complexity: c"O(N log N) for N grants, and O(log M) for M waiters.",
        since: c"0.1.0",
        flags: c"write admin fast",
        acl: &[c"write", c"fast", c"admin", c"dangerous", c"lock"],
        tips: c"",
        key: KeyUse { keys: Keys::First, tells: false, change: Some(Change::Delete) },
        arguments: &[Argument::KEY, parse::FENCE],
    };
    type Error = Error;

    fn run(ctx: &Ctx<'_>, args: Args<'_>) -> Result<(), Error> {
        let Break { key, fence } = Break::parse(args)?;
        let broken = serving::break_(ctx, key, fence)?;
        for grant in &broken {
            let line = format!(
                "lock broken: {}, fence {}, by {}, key \"{}\"",
                serving::named(grant.owner().text().as_ref(), grant.label(), Vec::new),
                grant.fence().get(),
                ctx.client(),
                // The key comes last, because the server cuts a line of the log off after 1 kB.
                key.bytes().escape_ascii(),
            );
            ctx.log(LogLevel::Notice, &line);
        }
        ctx.reply_integer(broken.len() as i64);
        Ok(())
    }
}

impl<'a> Break<'a> {
    pub(super) fn parse(args: Args<'a>) -> Result<Self, Error> {
        let key = parse::required(args, 1, "key")?;
        let mut fence = None;
        let mut words = Words::new(args, 2);
        while let Some(word) = words.next() {
            if !parse::is(word, "FENCE") {
                return Err(words.error());
            }
            words.read(&mut fence)?;
        }
        Ok(Self { key, fence: fence.map(parse::fence).transpose()? })
    }
}
