//! `LOCK.EXTEND key owner [EX seconds | PX milliseconds] [FENCE fence] [SYNC replicas milliseconds]`
//!
//! Sets the lease of the owner's grant to the given length, counted from now. Replies with the length of the lease in ms.
//!
//! `LOCK.MEXTEND numkeys key [key ...] owner [EX seconds | PX milliseconds] [FENCE fence] [SYNC replicas milliseconds]`
//!
//! Sets the lease of each lock to the given length, counted from now. If the command can't set one of the leases, it sets none. Replies
//! with the length in ms of the lease that ends first.

use super::parse::{self, Unit, Words};
use crate::config;
use crate::error::Error;
use crate::server::{Arg, Args, Argument, Change, Command, Ctx, Definition, KeyUse, Keys};
use crate::serving::{self, Outcome};
use rules::lock::{Deadline, Millis, Now, Owner};
use rules::waiting::{self, Confirm};

pub(crate) struct Extend<'a> {
    key: Arg<'a>,
    pub(super) longer: ExtendRequest<'a>,
}

/// The arguments that `LOCK.EXTEND` and `LOCK.MEXTEND` share.
pub(super) struct ExtendRequest<'a> {
    pub(super) owner: Owner<'a>,
    pub(super) lease: Option<Millis>,
    pub(super) fence: Option<u64>,
    pub(super) confirm: Option<Confirm>,
}

impl Command for Extend<'_> {
    const DEFINITION: Definition = Definition {
        name: c"lock.extend",
        summary: c"Sets the lease of a held lock, counted from now.",
        complexity: c"O(1) if nobody else holds the lock. O(log H) for H holders, and O(log N) for N locks with waiters or a session.",
        since: c"0.1.0",
        flags: c"write fast blocking",
        acl: &[c"write", c"fast", c"blocking", c"lock"],
        tips: c"nondeterministic_output",
        key: KeyUse { keys: Keys::First, tells: false, change: Some(Change::Update) },
        arguments: &[Argument::KEY, parse::OWNER, parse::LEASE, parse::FENCE, parse::SYNC],
    };
    type Error = Error;

    fn run(ctx: &Ctx<'_>, args: Args<'_>) -> Result<(), Error> {
        let Extend { key, longer } = Extend::parse(args)?;
        let now = serving::now();
        let outcome = serving::extend(ctx, &[key], false, &longer.asked(), now)?;
        ExtendRequest::reply(ctx, outcome, now);
        Ok(())
    }
}

impl<'a> Extend<'a> {
    pub(super) fn parse(args: Args<'a>) -> Result<Self, Error> {
        let key = parse::required(args, 1, "key")?;
        Ok(Self { key, longer: ExtendRequest::parse(Words::new(args, 2), "lock.extend")? })
    }
}

pub(crate) struct Mextend<'a> {
    pub(super) keys: Vec<Arg<'a>>,
    pub(super) longer: ExtendRequest<'a>,
}

impl Command for Mextend<'_> {
    const DEFINITION: Definition = Definition {
        name: c"lock.mextend",
        summary: c"Sets the leases of several held locks, counted from now: of all, or of none.",
        complexity: c"O(K) for K locks if nobody else holds them. O(K log H) for H holders, and O(K log N) for N locks with waiters or a session.",
        since: c"0.1.0",
        flags: c"write blocking",
        acl: &[c"write", c"slow", c"blocking", c"lock"],
        tips: c"nondeterministic_output",
        key: KeyUse { keys: Keys::Counted, tells: false, change: Some(Change::Update) },
        arguments: &[parse::NUMKEYS, parse::KEYS, parse::OWNER, parse::LEASE, parse::FENCE, parse::SYNC],
    };
    type Error = Error;

    fn run(ctx: &Ctx<'_>, args: Args<'_>) -> Result<(), Error> {
        let Mextend { keys, longer } = Mextend::parse(args)?;
        let now = serving::now();
        let outcome = serving::extend(ctx, &keys, true, &longer.asked(), now)?;
        ExtendRequest::reply(ctx, outcome, now);
        Ok(())
    }
}

impl<'a> Mextend<'a> {
    pub(super) fn parse(args: Args<'a>) -> Result<Self, Error> {
        let (keys, words) = parse::keys(args)?;
        Ok(Self { keys, longer: ExtendRequest::parse(words, "lock.mextend")? })
    }
}

impl<'a> ExtendRequest<'a> {
    /// Reads the arguments after the keys.
    fn parse(mut words: Words<'a>, command: &'static str) -> Result<Self, Error> {
        let owner = words.owner()?;
        let (mut lease, mut fence, mut confirm) = (None, None, None);
        while let Some(word) = words.next() {
            if let Some(unit) = Unit::of(word) {
                let value = words.value()?;
                words.set(&mut lease, (unit, value))?;
            } else if parse::is(word, "FENCE") {
                words.read(&mut fence)?;
            } else if parse::is(word, "SYNC") {
                let sync = [words.value()?, words.value()?];
                words.set(&mut confirm, sync)?;
            } else {
                return Err(words.error());
            }
        }
        Ok(Self {
            owner: parse::owner(owner)?,
            lease: lease.map(|(unit, arg)| parse::lease(unit, arg, command)).transpose()?,
            fence: fence.map(parse::fence).transpose()?,
            confirm: confirm.map(parse::confirm).transpose()?,
        })
    }

    /// Returns the request, with the default lease if the client named no lease.
    fn asked(&self) -> waiting::ExtendRequest<'_> {
        let lease = self.lease.unwrap_or_else(config::default_lease);
        waiting::ExtendRequest { owner: &self.owner, fence: self.fence, lease, confirm: self.confirm }
    }

    fn reply(ctx: &Ctx<'_>, outcome: Outcome<Deadline>, now: Now) {
        match outcome {
            Outcome::Granted(until) => ctx.reply_integer(until.left(now.start)),
            // The module replies when replicas have confirmed the extension, or when their time is up.
            Outcome::Waits => (),
            Outcome::Taken | Outcome::Queued => ctx.reply_null(),
        }
    }
}
