//! `LOCK.EXTEND key owner [EX seconds | PX milliseconds] [FENCE fence]`
//!
//! Sets the lease to that long from now, and answers it in ms.

use super::parse::{self, Unit};
use crate::config;
use crate::error::Error;
use crate::lock::{Millis, Owner};
use crate::server::{Arg, Args, Argument, Change, Command, Ctx, Definition, KeyUse, Keys};
use crate::serving;

pub(crate) struct Extend<'a> {
    key: Arg<'a>,
    pub(super) longer: Longer<'a>,
}

/// What lease is asked for, of one lock or of several.
pub(super) struct Longer<'a> {
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
        key: KeyUse { keys: Keys::First, tells: false, change: Some(Change::Update) },
        arguments: &[Argument::KEY, parse::OWNER, parse::LEASE, parse::FENCE],
    };
    type Error = Error;

    fn run(ctx: &Ctx<'_>, args: Args<'_>) -> Result<(), Error> {
        Extend::parse(args)?.apply(ctx)
    }
}

impl<'a> Extend<'a> {
    pub(super) fn parse(args: Args<'a>) -> Result<Self, Error> {
        let key = parse::required(args, 1)?;
        Ok(Self { key, longer: Longer::parse(args.skip(2), "lock.extend")? })
    }

    fn apply(self, ctx: &Ctx<'_>) -> Result<(), Error> {
        let Longer { owner, fence, .. } = &self.longer;
        let now = serving::now();
        let until = serving::extend(ctx, self.key, owner, *fence, self.longer.lease(), now)?;
        ctx.reply_integer(until.left(now.start));
        Ok(())
    }
}

impl<'a> Longer<'a> {
    /// Reads what follows the keys.
    pub(super) fn parse(
        mut words: impl Iterator<Item = Arg<'a>>,
        command: &'static str,
    ) -> Result<Self, Error> {
        let owner = parse::value(&mut words)?;
        let (mut lease, mut fence) = (None, None);
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
            owner: parse::owner(owner)?,
            lease: lease.map(|(unit, arg)| parse::lease(unit, arg, command)).transpose()?,
            fence: fence.map(parse::fence).transpose()?,
        })
    }

    /// The lease that is meant, in ms.
    pub(super) fn lease(&self) -> Millis {
        self.lease.unwrap_or_else(config::default_lease)
    }
}
