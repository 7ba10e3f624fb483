//! `LOCK.ACQUIRE key [OWNER owner] [EX seconds | PX milliseconds] [SHARED | LIMIT holders [SLOT slot]] [BLOCK milliseconds] [NOTIFY channel
//! [START number] [WANTED]] [ONCE] [SESSION] [MAXHOLD milliseconds] [DETECT] [SYNC replicas milliseconds] [LABEL text]`
//!
//! Replies with `[owner, fence, holds, lease in ms]`. With `LIMIT`, the reply ends with the slot (the number of the permit). The reply is
//! null if the owner can't have the lock now, or, with `BLOCK`, not before the time is up. With `BLOCK` and `NOTIFY`, a request that has to
//! wait gets the reply `QUEUED`.
//!
//! `LOCK.MACQUIRE numkeys key [key ...] [OWNER owner] [EX seconds | PX milliseconds] [SHARED | LIMIT holders [SLOT slot]] [BLOCK
//! milliseconds] [NOTIFY channel [WANTED]] [ONCE] [SESSION] [MAXHOLD milliseconds] [DETECT] [SYNC replicas milliseconds] [LABEL text]`
//!
//! Acquires the locks of all named keys, or no lock. Replies with `[owner, fences, holds, lease in ms]`, where fences and holds are in the
//! order of the keys. In all other respects, the command is like `LOCK.ACQUIRE`.

use super::parse::{self, Unit, Words};
use crate::config;
use crate::error::Error;
use crate::server::{Arg, Args, Argument, Change, Command, Ctx, Definition, KeyUse, Keys};
use crate::serving::{self, Outcome};
use rules::lock::{AcquireRequest, Owner, Room};
use rules::waiting::WaitOptions;

const OWNER: Argument = Argument::text(c"owner").after(c"OWNER").optional();
const BLOCK: Argument = Argument::integer(c"milliseconds").after(c"BLOCK").optional();
const NOTIFY: Argument = Argument::block(c"notify", &[CHANNEL, START, WANTED]).after(c"NOTIFY").optional();
const NOTIFY_OF_SEVERAL: Argument =
    Argument::block(c"notify", &[CHANNEL, WANTED]).after(c"NOTIFY").optional();
const CHANNEL: Argument = Argument::text(c"channel");
const START: Argument = Argument::integer(c"number").after(c"START").optional();
const WANTED: Argument = Argument::flag(c"wanted", c"WANTED");
const ONCE: Argument = Argument::flag(c"once", c"ONCE");
const SESSION: Argument = Argument::flag(c"session", c"SESSION");
const DETECT: Argument = Argument::flag(c"detect", c"DETECT");
const MAX_HOLD: Argument = Argument::integer(c"milliseconds").after(c"MAXHOLD").optional();
const LABEL: Argument = Argument::text(c"text").after(c"LABEL").optional();

pub(crate) struct Acquire<'a> {
    key: Arg<'a>,
    pub(super) asked: AcquireArgs<'a>,
}

impl Command for Acquire<'_> {
    const DEFINITION: Definition = Definition {
        name: c"lock.acquire",
        summary: c"Acquires a lock, re-enters it, or waits for it.",
        complexity: c"O(1) if nobody else holds the lock or waits. O(log H) for H holders, and O(log N) for N waiters and sessions.",
        since: c"0.1.0",
        flags: c"write deny-oom blocking",
        acl: &[c"write", c"slow", c"blocking", c"lock"],
        tips: c"nondeterministic_output",
        key: KeyUse { keys: Keys::First, tells: true, change: Some(Change::Update) },
        arguments: &[
            Argument::KEY,
            OWNER,
            parse::LEASE,
            parse::ROOM,
            BLOCK,
            NOTIFY,
            ONCE,
            SESSION,
            MAX_HOLD,
            DETECT,
            parse::SYNC,
            LABEL,
        ],
    };
    type Error = Error;

    fn run(ctx: &Ctx<'_>, args: Args<'_>) -> Result<(), Error> {
        let Acquire { key, mut asked } = Acquire::parse(args)?;
        let now = serving::now();
        let outcome = serving::acquire(ctx, key, &asked.ask, &mut asked.wait, now)?;
        asked.reply(ctx, outcome, |owner, (got, until)| {
            serving::reply_grant(ctx, owner, got, until.left(now.start))
        });
        Ok(())
    }
}

impl<'a> Acquire<'a> {
    pub(super) fn parse(args: Args<'a>) -> Result<Self, Error> {
        let key = parse::required(args, 1, "key")?;
        Ok(Self { key, asked: AcquireArgs::parse(Words::new(args, 2), "lock.acquire")? })
    }
}

pub(crate) struct Macquire<'a> {
    pub(super) keys: Vec<Arg<'a>>,
    pub(super) asked: AcquireArgs<'a>,
}

impl Command for Macquire<'_> {
    const DEFINITION: Definition = Definition {
        name: c"lock.macquire",
        summary: c"Acquires several locks at once, all or none, or waits for all of them.",
        complexity: c"O(K) for K locks if nobody else holds them or waits. O(K log H) for H holders, and O(K log N) for N waiters and sessions.",
        since: c"0.1.0",
        flags: c"write deny-oom blocking",
        acl: &[c"write", c"slow", c"blocking", c"lock"],
        tips: c"nondeterministic_output",
        key: KeyUse { keys: Keys::Counted, tells: true, change: Some(Change::Update) },
        arguments: &[
            parse::NUMKEYS,
            parse::KEYS,
            OWNER,
            parse::LEASE,
            parse::ROOM,
            BLOCK,
            NOTIFY_OF_SEVERAL,
            ONCE,
            SESSION,
            MAX_HOLD,
            DETECT,
            parse::SYNC,
            LABEL,
        ],
    };
    type Error = Error;

    fn run(ctx: &Ctx<'_>, args: Args<'_>) -> Result<(), Error> {
        let Macquire { keys, mut asked } = Macquire::parse(args)?;
        let now = serving::now();
        let outcome = serving::acquire_all(ctx, &keys, &asked.ask, &mut asked.wait, now)?;
        asked.reply(ctx, outcome, |owner, (all, until)| {
            serving::reply_grants(ctx, owner, &all, until.left(now.start))
        });
        Ok(())
    }
}

impl<'a> Macquire<'a> {
    pub(super) fn parse(args: Args<'a>) -> Result<Self, Error> {
        let (keys, words) = parse::keys(args)?;
        let asked = AcquireArgs::parse(words, "lock.macquire")?;
        // The message `start` has room for only one fence and one slot, so `START` is for one lock only.
        match asked.wait.channel.as_ref().is_some_and(|channel| channel.start.is_some()) {
            true => Err(Error::Syntax("START".into())),
            false => Ok(Self { keys, asked }),
        }
    }
}

/// What both commands take after the keys.
pub(super) struct AcquireArgs<'a> {
    /// The owner's name, if the client gave a name.
    pub(super) owner: Option<Arg<'a>>,
    pub(super) ask: AcquireRequest<'a>,
    pub(super) wait: WaitOptions,
}

impl<'a> AcquireArgs<'a> {
    #[inline(always)]
    fn parse(mut words: Words<'a>, command: &'static str) -> Result<Self, Error> {
        let (mut owner, mut lease, mut max_hold, mut block) = (None, None, None, None);
        let (mut channel, mut once, mut session, mut room, mut detect) = (None, None, None, None, None);
        let (mut confirm, mut wanted, mut start, mut label, mut slot) = (None, None, None, None, None);
        while let Some(word) = words.next() {
            if let Some(unit) = Unit::of(word) {
                let value = words.value()?;
                words.set(&mut lease, (unit, value))?;
            } else if parse::is(word, "OWNER") {
                words.read(&mut owner)?;
            } else if parse::is(word, "BLOCK") {
                words.read(&mut block)?;
            } else if parse::is(word, "NOTIFY") {
                words.read(&mut channel)?;
            } else if parse::is(word, "START") {
                words.read(&mut start)?;
            } else if parse::is(word, "WANTED") {
                words.set(&mut wanted, ())?;
            } else if parse::is(word, "ONCE") {
                words.set(&mut once, ())?;
            } else if parse::is(word, "SESSION") {
                words.set(&mut session, ())?;
            } else if parse::is(word, "DETECT") {
                words.set(&mut detect, ())?;
            } else if parse::is(word, "SHARED") {
                words.set(&mut room, None)?;
            } else if parse::is(word, "LIMIT") {
                let limit = words.value()?;
                words.set(&mut room, Some(limit))?;
            } else if parse::is(word, "MAXHOLD") {
                words.read(&mut max_hold)?;
            } else if parse::is(word, "SLOT") {
                words.read(&mut slot)?;
            } else if parse::is(word, "LABEL") {
                words.read(&mut label)?;
            } else if parse::is(word, "SYNC") {
                let sync = [words.value()?, words.value()?];
                words.set(&mut confirm, sync)?;
            } else {
                return Err(words.error());
            }
        }
        if (wanted.is_some() || start.is_some()) && channel.is_none() {
            return Err(Error::Syntax(if start.is_some() { "START" } else { "WANTED" }.into()));
        }
        // With `NOTIFY`, the owner sends the acquire again to claim its grant. A session begins with this claim, and replicas confirm the
        // claim. But with `START`, the owner sends no claim.
        if start.is_some() && (session.is_some() || confirm.is_some()) {
            return Err(Error::Syntax("START".into()));
        }
        let lease = match lease {
            Some((unit, arg)) => parse::lease(unit, arg, command)?,
            None => config::default_lease(),
        };
        let lease = if session.is_some() { parse::session_lease(lease)? } else { lease };
        let (room, slot) = match (room, slot) {
            (None, None) => (Room::ONE, None),
            (None, Some(_)) => return Err(Error::Syntax("SLOT".into())),
            (Some(limit), slot) => parse::permit(limit, slot)?,
        };
        let ask = AcquireRequest {
            owner: owner.map(parse::owner).transpose()?.unwrap_or_else(Owner::random),
            lease,
            once: once.is_some(),
            session: session.is_some(),
            room,
            slot,
            extras: match (max_hold, label) {
                (None, None) => None,
                (max_hold, label) => parse::extras(max_hold, label)?,
            },
        };
        let wait = WaitOptions {
            timeout: block.map(parse::timeout).transpose()?,
            channel: channel.map(|channel| parse::channel(channel, wanted.is_some(), start)).transpose()?,
            detect: detect.is_some(),
            confirm: confirm.map(parse::confirm).transpose()?,
        };
        Ok(Self { owner, ask, wait })
    }

    /// Replies to an acquire. If the client got its grants, `granted` writes the reply.
    #[inline(always)]
    fn reply<G>(&self, ctx: &Ctx<'_>, outcome: Outcome<G>, granted: impl FnOnce(&[u8], G)) {
        match outcome {
            Outcome::Granted(got) => match self.owner {
                // An owner's name that is a UUID is kept in binary form. With the client's own bytes, this UUID does not have to be
                // formatted as text again.
                Some(owner) => granted(owner.bytes(), got),
                None => granted(self.ask.owner.text().as_ref(), got),
            },
            Outcome::Taken => ctx.reply_null_array(),
            Outcome::Queued => ctx.reply_status(c"QUEUED"),
            // The module replies when the wait is over.
            Outcome::Waits => (),
        }
    }
}
