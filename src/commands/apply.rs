//! `LOCK.APPLY key [state]`
//!
//! Carries a change from a primary to its replicas and its append-only file. Clients may not send this command. `rules::encoding` lists
//! the forms of `state`.

use super::parse;
use crate::error::Error;
use crate::keyspace::{self, APPLY, LockKey};
use crate::server::{self, Arg, Args, Argument, Change, Command, Ctx, Definition, KeyUse, Keys, Step};
use rules::encoding::Effect;

pub(crate) struct Apply<'a> {
    key: Arg<'a>,
    pub(super) effect: Effect,
}

impl Command for Apply<'_> {
    const DEFINITION: Definition = Definition {
        name: APPLY,
        summary: c"Internal, refused from clients: carries a change to replicas and append-only files.",
        complexity: c"O(1)",
        since: c"0.1.0",
        flags: c"write fast",
        acl: &[c"write", c"fast", c"admin", c"dangerous"],
        tips: c"",
        key: KeyUse { keys: Keys::First, tells: false, change: Some(Change::Update) },
        arguments: &[Argument::KEY, Argument::text(c"state").optional()],
    };
    type Error = Error;

    fn run(ctx: &Ctx<'_>, args: Args<'_>) -> Result<(), Error> {
        if !ctx.applies_effects() {
            return Err(Error::NotAClientCommand);
        }
        let Apply { key, effect } = Apply::parse(args)?;
        // The server expires no key while it applies effects. So no other module can change keys while this command opens its key.
        let _step = Step::begin().ok_or(Error::Nested)?;
        let mut lock = LockKey::write(ctx, key, true)?;
        match effect {
            Effect::Free => lock.remove(),
            Effect::Lease(deadline) => lock.store_lease(deadline),
            Effect::Alone(grant, deadline) => {
                keyspace::observe_fence(grant.fence());
                lock.store(grant, deadline);
            }
            Effect::Among(grant, deadline) => {
                keyspace::observe_fence(grant.fence());
                lock.store_among(grant, deadline);
            }
            Effect::Ended(fence) => lock.remove_one(fence),
            Effect::Lapsed(time) => lock.remove_lapsed(time),
        }
        ctx.replicate_verbatim();
        ctx.reply_status(c"OK");
        Ok(())
    }
}

impl<'a> Apply<'a> {
    pub(super) fn parse(args: Args<'a>) -> Result<Self, Error> {
        if let Some(word) = args.get(3) {
            return Err(Error::syntax(Some(word)));
        }
        let state = args.get(2);
        Ok(Self {
            key: parse::required(args, 1, "key")?,
            effect: Effect::parse(state.map(Arg::bytes), server::now).ok_or_else(|| Error::syntax(state))?,
        })
    }
}
