//! `LOCK.EXTEND key owner [EX seconds | PX milliseconds] [FENCE fence]`
//!
//! Sets the lease to that long from now, and answers it in ms.

use super::parse::{self, Unit};
use crate::config;
use crate::error::Error;
use crate::lock::{Millis, Owner};
use crate::server::{Arg, Args, Argument, Change, Command, Ctx, Definition, KeyUse};
use crate::serving;

pub(crate) struct Extend<'a> {
    key: Arg<'a>,
    pub(super) owner: Owner<'a>,
    pub(super) lease: Option<Millis>,
    pub(super) fence: Option<u64>,
}

impl Command for Extend<'_> {
    const DEFINITION: Definition = Definition {
        name: c"lock.extend",
        summary: c"Sets the lease of a held lock to that long from now.",
        complexity: c"O(1), and O(log N) for N locks with waiters or a session.",
        since: c"0.1.0",
        flags: c"write fast",
        acl: &[c"write", c"fast", c"lock"],
        tips: c"nondeterministic_output",
        key: KeyUse { tells: false, change: Some(Change::Update) },
        arguments: &[Argument::KEY, Argument::text(c"owner"), parse::LEASE, parse::FENCE],
    };
    type Error = Error;

    fn run(ctx: &Ctx<'_>, args: Args<'_>) -> Result<(), Error> {
        Extend::parse(args)?.apply(ctx)
    }
}

impl<'a> Extend<'a> {
    pub(super) fn parse(args: Args<'a>) -> Result<Self, Error> {
        let key = parse::required(args, 1)?;
        let owner = parse::required(args, 2)?;
        let (mut lease, mut fence) = (None, None);
        let mut words = args.skip(3);
        while let Some(word) = words.next().map(Arg::bytes) {
            if let Some(unit) = Unit::of(word) {
                parse::set(&mut lease, (unit, parse::value(&mut words)?))?;
            } else if parse::is(word, "FENCE") {
                parse::set(&mut fence, parse::value(&mut words)?)?;
            } else {
                return Err(Error::Syntax);
            }
        }
        Ok(Self {
            key,
            owner: parse::owner(owner)?,
            lease: lease.map(|(unit, arg)| parse::lease(unit, arg, "lock.extend")).transpose()?,
            fence: fence.map(parse::fence).transpose()?,
        })
    }

    fn apply(self, ctx: &Ctx<'_>) -> Result<(), Error> {
        let lease = self.lease.unwrap_or_else(config::default_lease);
        let now = serving::now();
        let until = serving::extend(ctx, self.key, &self.owner, self.fence, lease, now)?;
        ctx.reply_integer(until.left(now.start));
        Ok(())
    }
}
