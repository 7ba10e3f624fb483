//! `LOCK.ACQUIRE key [OWNER owner] [EX seconds | PX milliseconds] [SHARED | LIMIT holders] [BLOCK milliseconds] [NOTIFY channel]
//! [ONCE] [SESSION] [MAXHOLD milliseconds]`
//!
//! Answers `[owner, fence, holds, lease in ms]`, or null where those who hold the lock leave no room (with `BLOCK`: still, when the
//! time is up). With `BLOCK` and `NOTIFY`: `QUEUED`.

use super::parse::{self, Unit};
use crate::config;
use crate::error::Error;
use crate::lock::{Ask, Owner, Room};
use crate::reply::reply_grant;
use crate::server::{Arg, Args, Argument, Change, Command, Ctx, Definition, KeyUse};
use crate::serving;
use crate::waiting::{Outcome, Wait};

pub(crate) struct Acquire<'a> {
    key: Arg<'a>,
    /// The owner as the client wrote it, where it named one.
    owner: Option<Arg<'a>>,
    pub(super) ask: Ask<'a>,
    pub(super) wait: Wait,
}

impl Command for Acquire<'_> {
    const DEFINITION: Definition = Definition {
        name: c"lock.acquire",
        summary: c"Takes a lock, takes it once more, or waits for it.",
        complexity: c"O(1) for the lock, and O(log N) for N waiters when it waits or hands over.",
        since: c"0.1.0",
        flags: c"write deny-oom blocking",
        acl: &[c"write", c"slow", c"blocking", c"lock"],
        tips: c"nondeterministic_output",
        key: KeyUse { tells: true, change: Some(Change::Update) },
        arguments: &[
            Argument::KEY,
            Argument::text(c"owner").after(c"OWNER").optional(),
            parse::LEASE,
            parse::ROOM,
            Argument::integer(c"milliseconds").after(c"BLOCK").optional(),
            Argument::text(c"channel").after(c"NOTIFY").optional(),
            Argument::flag(c"once", c"ONCE"),
            Argument::flag(c"session", c"SESSION"),
            Argument::integer(c"milliseconds").after(c"MAXHOLD").optional(),
        ],
    };
    type Error = Error;

    fn run(ctx: &Ctx<'_>, args: Args<'_>) -> Result<(), Error> {
        Acquire::parse(args)?.apply(ctx)
    }
}

impl<'a> Acquire<'a> {
    pub(super) fn parse(args: Args<'a>) -> Result<Self, Error> {
        let key = parse::required(args, 1)?;
        let (mut owner, mut lease, mut max_hold, mut block) = (None, None, None, None);
        let (mut channel, mut once, mut session, mut room) = (None, None, None, None);
        let mut words = args.skip(2);
        while let Some(word) = words.next().map(Arg::bytes) {
            if let Some(unit) = Unit::of(word) {
                parse::set(&mut lease, (unit, parse::value(&mut words)?))?;
            } else if parse::is(word, "OWNER") {
                parse::set(&mut owner, parse::value(&mut words)?)?;
            } else if parse::is(word, "BLOCK") {
                parse::set(&mut block, parse::value(&mut words)?)?;
            } else if parse::is(word, "NOTIFY") {
                parse::set(&mut channel, parse::value(&mut words)?)?;
            } else if parse::is(word, "ONCE") {
                parse::set(&mut once, ())?;
            } else if parse::is(word, "SESSION") {
                parse::set(&mut session, ())?;
            } else if parse::is(word, "SHARED") {
                parse::set(&mut room, None)?;
            } else if parse::is(word, "LIMIT") {
                parse::set(&mut room, Some(parse::value(&mut words)?))?;
            } else if parse::is(word, "MAXHOLD") {
                parse::set(&mut max_hold, parse::value(&mut words)?)?;
            } else {
                return Err(Error::Syntax);
            }
        }
        let lease = match lease {
            Some((unit, arg)) => parse::lease(unit, arg, "lock.acquire")?,
            None => config::default_lease(),
        };
        let ask = Ask {
            owner: owner.map(parse::owner).transpose()?.unwrap_or_else(Owner::random),
            lease,
            max_hold: max_hold.map(parse::max_hold).transpose()?,
            once: once.is_some(),
            session: session.is_some(),
            room: match room {
                None => Room::ONE,
                Some(limit) => parse::room(limit)?,
            },
        };
        let wait = Wait {
            timeout: block.map(parse::timeout).transpose()?,
            channel: channel.map(parse::channel).transpose()?,
        };
        Ok(Self { key, owner, ask, wait })
    }

    fn apply(self, ctx: &Ctx<'_>) -> Result<(), Error> {
        let Self { key, owner, ask, wait } = self;
        let now = serving::now();
        match serving::acquire(ctx, key, &ask, &wait, now)? {
            Outcome::Granted { fence, holds, until } => {
                let lease = until.left(now.start);
                match owner {
                    // Its own bytes: no UUID is to be spelled out again.
                    Some(owner) => reply_grant(ctx, owner.bytes(), fence, holds, lease),
                    None => reply_grant(ctx, ask.owner.text().as_ref(), fence, holds, lease),
                }
            }
            Outcome::Taken => ctx.reply_null_array(),
            Outcome::Queued => ctx.reply_status(c"QUEUED"),
            Outcome::Waits => (),
        }
        Ok(())
    }
}
