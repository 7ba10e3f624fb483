//! `LOCK.EXTEND key owner [EX seconds | PX milliseconds] [FENCE fence]`
//!
//! Sets the lease to that long from now, and answers it in ms.

use super::parse::{self, Unit};
use crate::config;
use crate::error::Error;
use crate::info;
use crate::keyspace::LockKey;
use crate::lock::{self, Grant, Millis, Owner};
use crate::server::{self, Arg, Args, Argument, Change, Command, Ctx, Definition, KeyUse};
use crate::waiting;

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
        let now_us = server::now();
        let now = server::lease_start(now_us);
        let mut lock = LockKey::write(ctx, self.key)?;
        waiting::settle(ctx, &mut lock, now_us);
        let deadline = lock::extend(lock.grant(), &self.owner, self.fence, lease, waiting::limits(), now)
            .ok_or(Error::NotHeld)?;
        let holds = lock.grant().map_or(0, Grant::holds);
        waiting::may_lengthen()?;
        lock.update(ctx, holds, deadline);
        waiting::lease_moved(ctx, self.key, deadline);
        ctx.notify(c"lock.extended", self.key);
        info::EXTENSIONS.count();
        ctx.reply_integer(deadline.left(now));
        Ok(())
    }
}
