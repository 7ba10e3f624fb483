//! `LOCK.APPLY key [deadline | owner fence holds max-hold deadline]`
//!
//! What a primary tells its replicas and its append-only file; `keyspace::effects` says what the forms mean. Refused
//! from clients.

use super::parse;
use crate::config;
use crate::error::Error;
use crate::keyspace::{self, APPLY, LockKey};
use crate::lock::{Deadline, Fence, Grant, Millis};
use crate::server::{Arg, Args, Argument, Change, Command, Ctx, Definition, KeyUse};

pub(crate) struct Apply<'a> {
    key: Arg<'a>,
    effect: Effect,
}

/// What the lock is to be.
enum Effect {
    Free,
    Lease(Deadline),
    Held(Grant, Deadline),
}

impl Command for Apply<'_> {
    const DEFINITION: Definition = Definition {
        name: APPLY,
        summary:
            c"The module's own, refused from clients: carries a change to replicas and append-only files.",
        complexity: c"O(1)",
        since: c"0.1.0",
        flags: c"write fast",
        acl: &[c"write", c"fast", c"admin", c"dangerous"],
        tips: c"",
        key: KeyUse { tells: false, change: Some(Change::Update) },
        arguments: &[
            Argument::KEY,
            Argument::one_of(
                c"state",
                &[
                    Argument::integer(c"deadline"),
                    Argument::block(
                        c"grant",
                        &[
                            Argument::text(c"owner"),
                            Argument::integer(c"fence"),
                            Argument::integer(c"holds"),
                            Argument::integer(c"max-hold"),
                            Argument::integer(c"deadline"),
                        ],
                    ),
                ],
            )
            .optional(),
        ],
    };
    type Error = Error;

    fn run(ctx: &Ctx<'_>, args: Args<'_>) -> Result<(), Error> {
        if !ctx.applies_effects() {
            return Err(Error::NotAClientCommand);
        }
        Apply::parse(args)?.apply(ctx)
    }
}

impl<'a> Apply<'a> {
    pub(super) fn parse(args: Args<'a>) -> Result<Self, Error> {
        let key = parse::required(args, 1)?;
        let effect = match (args.get(2), args.get(3)) {
            (None, _) => Effect::Free,
            (Some(deadline), None) => Effect::Lease(self::deadline(number(deadline)?)),
            _ if args.get(7).is_some() => return Err(Error::Syntax),
            (Some(owner), Some(fence)) => {
                let owner = parse::owner(owner)?;
                let fence =
                    u64::try_from(number(fence)?).ok().and_then(Fence::new).ok_or(Error::NotAnInteger)?;
                let holds = number(parse::required(args, 4)?)?;
                let holds =
                    u32::try_from(holds).ok().filter(|&holds| holds > 0).ok_or(Error::NotAnInteger)?;
                let max_hold = number(parse::required(args, 5)?)?;
                if !(0..=config::LONGEST_LEASE).contains(&max_hold) {
                    return Err(Error::NotAnInteger);
                }
                let max_hold = Some(max_hold).filter(|&max_hold| max_hold > 0);
                let deadline = deadline(number(parse::required(args, 6)?)?);
                Effect::Held(Grant::new(owner, fence, holds, max_hold), deadline)
            }
        };
        Ok(Self { key, effect })
    }

    fn apply(self, ctx: &Ctx<'_>) -> Result<(), Error> {
        let mut lock = LockKey::write(ctx, self.key)?;
        match self.effect {
            Effect::Free => lock.remove(ctx),
            Effect::Lease(deadline) => lock.store_lease(ctx, deadline),
            Effect::Held(grant, deadline) => {
                keyspace::observe_fence(grant.fence());
                lock.store(ctx, grant, deadline);
            }
        }
        ctx.replicate_verbatim();
        ctx.reply_status(c"OK");
        Ok(())
    }

    /// The state that it brings; none where it frees the lock or only moves its lease.
    #[cfg(fuzzing)]
    pub(super) fn grant(&self) -> Option<&Grant> {
        if let Effect::Held(grant, _) = &self.effect { Some(grant) } else { None }
    }
}

fn number(arg: Arg<'_>) -> Result<i64, Error> {
    arg.integer().ok_or(Error::NotAnInteger)
}

fn deadline(at: Millis) -> Deadline {
    if at < 0 { Deadline::Never } else { Deadline::At(at) }
}
