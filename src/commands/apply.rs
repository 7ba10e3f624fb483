//! `LOCK.APPLY key [owner fence holds deadline-ms]`
//!
//! What a primary tells its replicas and its append-only file: the lock is held so, or (without the rest) free.
//! Refused from clients. A deadline of -1 is none.

use std::ffi::CStr;
use std::ops::RangeInclusive;

use super::parse;
use crate::error::Error;
use crate::keyspace::{self, APPLY, LockKey};
use crate::lock::{Deadline, Fence, Grant};
use crate::server::{Arg, Args, Command, Ctx};

pub(crate) struct Apply;

impl Command for Apply {
    const NAME: &'static CStr = APPLY;
    const FLAGS: &'static CStr = c"write fast";
    const ARITY: RangeInclusive<usize> = 2..=6;
    type Error = Error;

    fn run(ctx: &Ctx<'_>, args: Args<'_>) -> Result<(), Error> {
        if !ctx.applies_effects() {
            return Err(Error::NotAClientCommand);
        }
        let mut words = args.skip(2);
        let key = parse::required(args, 1)?;
        match words.next() {
            None => LockKey::write(ctx, key)?.remove(ctx),
            Some(owner) => {
                let owner = parse::owner(owner)?;
                let fence = number(&mut words)?;
                let fence = u64::try_from(fence)
                    .ok()
                    .and_then(Fence::new)
                    .ok_or(Error::NotAnInteger)?;
                let holds = number(&mut words)?;
                let holds = u32::try_from(holds)
                    .ok()
                    .filter(|&holds| holds > 0)
                    .ok_or(Error::NotAnInteger)?;
                let deadline = match number(&mut words)? {
                    ..0 => Deadline::Never,
                    at => Deadline::At(at),
                };
                let mut lock = LockKey::write(ctx, key)?;
                keyspace::observe_fence(fence);
                lock.store(ctx, Grant::with_holds(owner, fence, holds), deadline);
            }
        }
        ctx.replicate_verbatim();
        ctx.reply_status(c"OK");
        Ok(())
    }
}

fn number<'a>(words: &mut impl Iterator<Item = Arg<'a>>) -> Result<i64, Error> {
    parse::value(words)?.integer().ok_or(Error::NotAnInteger)
}
