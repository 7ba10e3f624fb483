//! Parses the options that `LOCK.ACQUIRE` and `LOCK.MACQUIRE` share, and replies to both commands.

use super::parse::{self, Unit, Words};
use crate::config;
use crate::error::Error;
use crate::server::{Arg, Argument, Ctx};
use crate::serving::Outcome;
use rules::lock::{AcquireRequest, Owner, Room};
use rules::waiting::WaitOptions;

pub(super) const OWNER: Argument = Argument::text(c"owner").after(c"OWNER").optional();
pub(super) const BLOCK: Argument = Argument::integer(c"milliseconds").after(c"BLOCK").optional();
pub(super) const NOTIFY: Argument =
    Argument::block(c"notify", &[CHANNEL, START, WANTED]).after(c"NOTIFY").optional();
pub(super) const NOTIFY_OF_SEVERAL: Argument =
    Argument::block(c"notify", &[CHANNEL, WANTED]).after(c"NOTIFY").optional();
const CHANNEL: Argument = Argument::text(c"channel");
const START: Argument = Argument::integer(c"number").after(c"START").optional();
const WANTED: Argument = Argument::flag(c"wanted", c"WANTED");
pub(super) const ONCE: Argument = Argument::flag(c"once", c"ONCE");
pub(super) const SESSION: Argument = Argument::flag(c"session", c"SESSION");
pub(super) const DETECT: Argument = Argument::flag(c"detect", c"DETECT");
pub(super) const MAX_HOLD: Argument = Argument::integer(c"milliseconds").after(c"MAXHOLD").optional();
pub(super) const LABEL: Argument = Argument::text(c"text").after(c"LABEL").optional();

pub(super) struct AcquireArgs<'a> {
    /// The owner's name, if the client gave a name.
    pub(super) owner: Option<Arg<'a>>,
    pub(super) ask: AcquireRequest<'a>,
    pub(super) wait: WaitOptions,
}

impl<'a> AcquireArgs<'a> {
    #[inline(always)]
    pub(super) fn parse(mut words: Words<'a>, command: &'static str) -> Result<Self, Error> {
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

    #[inline(always)]
    fn with_owner<R>(&self, body: impl FnOnce(&[u8]) -> R) -> R {
        match self.owner {
            // An owner's name that is a UUID is kept in binary form. With the client's own bytes, this UUID does not have to be formatted
            // as text again.
            Some(owner) => body(owner.bytes()),
            None => body(self.ask.owner.text().as_ref()),
        }
    }

    /// Replies to an acquire. If the client got its grants, `granted` writes the reply.
    #[inline(always)]
    pub(super) fn reply<G>(&self, ctx: &Ctx<'_>, outcome: Outcome<G>, granted: impl FnOnce(&[u8], G)) {
        match outcome {
            Outcome::Granted(got) => self.with_owner(|owner| granted(owner, got)),
            Outcome::Taken => ctx.reply_null_array(),
            Outcome::Queued => ctx.reply_status(c"QUEUED"),
            // The module replies when the wait is over.
            Outcome::Waits => (),
        }
    }
}
