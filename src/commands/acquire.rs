//! `LOCK.ACQUIRE key [OWNER owner] [EX seconds | PX milliseconds] [BLOCK milliseconds] [ONCE]`
//!
//! Answers `[owner, fence, holds, lease in ms]`, or null where the lock is another's (with `BLOCK`: still another's when
//! the time is up).

use std::ffi::CStr;
use std::ops::RangeInclusive;

use super::parse::{self, Unit};
use crate::config;
use crate::error::Error;
use crate::keyspace::{self, LockKey};
use crate::lock::{self, Acquired, Ask, Deadline, Fence, Grant, Millis, Owner};
use crate::server::{self, Arg, Args, Command, Ctx};
use crate::waiting;

pub(crate) struct Acquire<'a> {
    key: Arg<'a>,
    owner: Option<Owner<'a>>,
    lease: Option<Millis>,
    /// How long to wait, in ms; 0: without limit.
    block: Option<Millis>,
    once: bool,
}

impl Command for Acquire<'_> {
    const NAME: &'static CStr = c"lock.acquire";
    const FLAGS: &'static CStr = c"write deny-oom blocking";
    const ARITY: RangeInclusive<usize> = 2..=usize::MAX;
    type Error = Error;

    fn run(ctx: &Ctx<'_>, args: Args<'_>) -> Result<(), Error> {
        Acquire::parse(args)?.apply(ctx)
    }
}

impl<'a> Acquire<'a> {
    fn parse(args: Args<'a>) -> Result<Self, Error> {
        let key = parse::required(args, 1)?;
        let (mut owner, mut lease, mut block, mut once) = (None, None, None, None);
        let mut words = args.skip(2);
        while let Some(word) = words.next() {
            if let Some(unit) = Unit::of(word) {
                parse::set(&mut lease, (unit, parse::value(&mut words)?))?;
            } else if word.is("OWNER") {
                parse::set(&mut owner, parse::value(&mut words)?)?;
            } else if word.is("BLOCK") {
                parse::set(&mut block, parse::value(&mut words)?)?;
            } else if word.is("ONCE") {
                parse::set(&mut once, ())?;
            } else {
                return Err(Error::Syntax);
            }
        }
        Ok(Self {
            key,
            owner: owner.map(parse::owner).transpose()?,
            lease: lease
                .map(|(unit, arg)| parse::lease(unit, arg, "lock.acquire"))
                .transpose()?,
            block: block.map(parse::timeout).transpose()?,
            once: once.is_some(),
        })
    }

    fn apply(self, ctx: &Ctx<'_>) -> Result<(), Error> {
        let owner = self.owner.unwrap_or_else(Owner::random);
        let lease = self.lease.unwrap_or_else(config::default_lease);
        let now_us = server::now();
        let now = now_us / 1000;
        let mut lock = LockKey::write(ctx, self.key)?;
        waiting::settle(ctx, &mut lock, now_us)?;
        let held = lock.held();
        let ask = Ask {
            owner: &owner,
            lease,
            once: self.once,
        };
        match (lock::acquire(held, ask, now)?, held) {
            (Acquired::Granted { deadline }, _) => {
                let fence = keyspace::next_fence(now_us)?;
                lock.grant_to(ctx, Grant::new(owner.borrowed(), fence), deadline);
                ctx.notify(c"lock.acquired", self.key);
                reply_grant(ctx, &owner, fence, 1, lease);
            }
            (Acquired::Reentered { holds, deadline }, Some(held)) => {
                let fence = held.grant.fence();
                lock.update(ctx, holds, deadline);
                reply_grant(ctx, &owner, fence, holds, deadline.left(now));
            }
            (_, held) => {
                let until = held.map_or(Deadline::Never, |held| held.deadline);
                let waits = match self.block {
                    Some(timeout) => {
                        let ask = waiting::ask(owner.into_owned(), lease, self.once);
                        waiting::join(ctx, self.key, ask, timeout, until)?
                    }
                    None => false,
                };
                if !waits {
                    ctx.reply_null_array();
                }
            }
        }
        Ok(())
    }
}

/// Tells the owner of its grant; the lease in ms.
pub(crate) fn reply_grant(ctx: &Ctx<'_>, owner: &Owner<'_>, fence: Fence, holds: u32, lease: Millis) {
    ctx.reply_array(4);
    ctx.reply_bytes(owner.text().as_ref());
    ctx.reply_integer(fence.get().cast_signed());
    ctx.reply_integer(holds.into());
    ctx.reply_integer(lease);
}
