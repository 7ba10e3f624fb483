//! Parses arguments that several commands take.

use std::collections::BTreeSet;
use std::num::{NonZeroU32, NonZeroU64};
use std::sync::Arc;

use crate::config;
use crate::error::{Error, Range};
use crate::server::{Arg, Args, Argument};
use rules::lock::{Extras, LONGEST_LEASE, MAX_LABEL_LEN, Millis, Owner, Room, Slot, SlotRequest};
use rules::waiting::{Channel, Confirm};

/// The number of keys, which precedes the keys.
pub(super) const NUMKEYS: Argument = Argument::integer(c"numkeys");
pub(super) const KEYS: Argument = Argument::KEY.many();

pub(super) const OWNER: Argument = Argument::text(c"owner");

pub(super) const LEASE: Argument = Argument::one_of(
    c"lease",
    &[Argument::integer(c"seconds").after(c"EX"), Argument::integer(c"milliseconds").after(c"PX")],
)
.optional();

/// The room of the request: how many owners may hold the lock at the same time, including the owner that asks.
pub(super) const ROOM: Argument = Argument::one_of(
    c"room",
    &[
        Argument::word(c"shared", c"SHARED"),
        Argument::block(
            c"limit",
            &[Argument::integer(c"holders"), Argument::integer(c"slot").after(c"SLOT").optional()],
        )
        .after(c"LIMIT"),
    ],
)
.optional();

/// With this option, the command acts only on the grant with this fence.
pub(super) const FENCE: Argument = Argument::integer(c"fence").after(c"FENCE").optional();

/// Returns the argument at this place, or an error that names it if there is none. This check is needed because Redis does not check the
/// number of arguments of commands from an append-only file.
pub(super) fn required<'a>(args: Args<'a>, place: usize, what: &'static str) -> Result<Arg<'a>, Error> {
    // `ok_or` would make an error each time, and dropping it takes a call. So the hot path does without `ok_or`.
    let Some(arg) = args.get(place) else { return Err(Error::Missing(what)) };
    Ok(arg)
}

/// Reads the number of keys, and the keys, which must differ from each other. Returns the keys and the arguments after them.
pub(super) fn keys<'a>(args: Args<'a>) -> Result<(Vec<Arg<'a>>, Words<'a>), Error> {
    let count = required(args, 1, "numkeys")?.integer().and_then(|count| usize::try_from(count).ok());
    let count = count.filter(|count| *count > 0).ok_or(Error::NumKeys)?;
    let keys: Vec<Arg<'a>> = args.skip(2).take(count).collect();
    if keys.len() < count {
        return Err(Error::TooFewKeys);
    }
    let max = config::max_keys();
    if count > max {
        return Err(Error::TooManyKeys { max });
    }
    let names: BTreeSet<&[u8]> = keys.iter().map(|key| key.bytes()).collect();
    if names.len() < count {
        return Err(Error::KeyTwice);
    }
    Ok((keys, Words::new(args, count.saturating_add(2))))
}

/// Returns the lease, or an error if it is too short for a session.
pub(super) fn session_lease(lease: Millis) -> Result<Millis, Error> {
    match config::min_session_lease() {
        min if lease < min => Err(Error::SessionTooShort { min }),
        _ => Ok(lease),
    }
}

/// Whether a word is this option. Case is ignored.
pub(super) fn is(word: &[u8], option: &str) -> bool {
    word.eq_ignore_ascii_case(option.as_bytes())
}

/// The arguments of a command after its keys: options and their values.
pub(super) struct Words<'a> {
    args: Args<'a>,
    /// The position of the next argument.
    next: usize,
    /// The position of the option that is being read, for the error if it is wrong.
    option: usize,
}

impl<'a> Words<'a> {
    /// Returns the arguments from this position on.
    #[inline(always)]
    pub(super) fn new(args: Args<'a>, next: usize) -> Self {
        Self { args, next, option: next }
    }

    /// Returns the owner, which some commands require before their options.
    #[inline(always)]
    pub(super) fn owner(&mut self) -> Result<Arg<'a>, Error> {
        let Some(owner) = self.take() else { return Err(Error::Missing("owner")) };
        Ok(owner)
    }

    /// Returns the next option.
    #[inline(always)]
    pub(super) fn next(&mut self) -> Option<&'a [u8]> {
        self.option = self.next;
        self.take().map(Arg::bytes)
    }

    /// Returns the next argument, which is a value of the option.
    #[inline(always)]
    pub(super) fn value(&mut self) -> Result<Arg<'a>, Error> {
        self.take().ok_or_else(|| self.error())
    }

    #[inline(always)]
    fn take(&mut self) -> Option<Arg<'a>> {
        let arg = self.args.get(self.next)?;
        self.next = self.next.wrapping_add(1);
        Some(arg)
    }

    /// Stores the option and its value, which is the next argument.
    #[inline(always)]
    pub(super) fn read(&mut self, option: &mut Option<Arg<'a>>) -> Result<(), Error> {
        let value = self.value()?;
        self.set(option, value)
    }

    /// Stores the option. Returns an error if `option` already has a value, from the same option or from an option that excludes it.
    #[inline(always)]
    pub(super) fn set<T>(&self, option: &mut Option<T>, value: T) -> Result<(), Error> {
        match option.replace(value) {
            None => Ok(()),
            Some(_) => Err(self.error()),
        }
    }

    /// Returns the error for an option that does not belong here.
    #[inline(always)]
    pub(super) fn error(&self) -> Error {
        Error::syntax(self.args.get(self.option))
    }
}

#[inline(always)]
pub(super) fn owner(arg: Arg<'_>) -> Result<Owner<'_>, Error> {
    let Some(owner) = Owner::new(arg.bytes()) else { return Err(Error::OwnerLength) };
    Ok(owner)
}

/// The number of replicas that have to confirm the command, and how many ms the client waits for them.
pub(super) const SYNC: Argument =
    Argument::block(c"sync", &[Argument::integer(c"replicas"), Argument::integer(c"milliseconds")])
        .after(c"SYNC")
        .optional();

/// Reads a number from 1 to the greatest that the range allows.
fn number(arg: Arg<'_>, range: Range) -> Result<u64, Error> {
    match arg.integer() {
        Some(..=0) => Err(Error::NotPositive(range.into())),
        Some(number) if number <= range.max => Ok(number.unsigned_abs()),
        // A natural limit is part of what the option means. A limit that something sets (`note`) has an error of its own.
        Some(_) if !range.note.is_empty() => Err(Error::OutOfRange(range.into())),
        _ => Err(Error::NotAnInteger(range.into())),
    }
}

/// Returns a range without a limit that a setting or another option sets.
const fn up_to(max: i64, option: &'static str) -> Range {
    Range { option, max, note: "" }
}

/// Reads the two arguments of `SYNC`: the number of replicas, and the longest time in ms to wait for them.
#[inline(never)]
pub(super) fn confirm([replicas, within]: [Arg<'_>; 2]) -> Result<Confirm, Error> {
    let positive = |arg| number(arg, up_to(u32::MAX.into(), "SYNC")).map(|number| number as u32);
    let replicas = NonZeroU32::new(positive(replicas)?).unwrap_or(NonZeroU32::MIN);
    Ok(Confirm { replicas, within: positive(within)? })
}

/// The longest name of a channel, in bytes. The limit is there because each place in a queue keeps the name in memory.
const LONGEST_CHANNEL: usize = 512;

/// Returns the channel on which a client is notified.
pub(super) fn channel(arg: Arg<'_>, wanted: bool, start: Option<Arg<'_>>) -> Result<Channel, Error> {
    let start = start.map(self::start).transpose()?;
    match arg.bytes() {
        bytes if (1..=LONGEST_CHANNEL).contains(&bytes.len()) => {
            Ok(Channel { address: bytes.into(), wanted, start })
        }
        _ => Err(Error::ChannelLength),
    }
}

/// Reads the number that follows `START`. The server's message `start` to the client repeats this number.
fn start(arg: Arg<'_>) -> Result<NonZeroU64, Error> {
    Ok(NonZeroU64::new(number(arg, up_to(i64::MAX, "START"))?).unwrap_or(NonZeroU64::MIN))
}

/// Reads a cursor, which the previous page's reply gave. 0 stands for the first page.
pub(super) fn cursor(arg: Arg<'_>) -> Result<u64, Error> {
    arg.integer().and_then(|cursor| u64::try_from(cursor).ok()).ok_or(Error::InvalidCursor)
}

/// Reads the number of entries to show, which must be from 1 to `max`.
pub(super) fn count(arg: Arg<'_>, max: usize) -> Result<usize, Error> {
    let range = up_to(max as i64, "COUNT");
    let count = arg.integer().ok_or_else(|| Error::NotAnInteger(range.into()))?;
    let count = usize::try_from(count).ok().filter(|count| (1..=max).contains(count));
    count.ok_or_else(|| Error::OutOfRange(range.into()))
}

/// Reads a fence, to compare it with the fence of a grant. The number may be above the greatest possible fence.
pub(super) fn fence(arg: Arg<'_>) -> Result<u64, Error> {
    number(arg, up_to(i64::MAX, "FENCE"))
}

/// Returns how many holders (the room) a request with `LIMIT` allows. With `SHARED`, `limit` is `None`, and the number is unlimited.
fn room(limit: Option<Arg<'_>>) -> Result<Room, Error> {
    let Some(limit) = limit else { return Ok(Room::ANY) };
    let range = Range { option: "LIMIT", max: config::max_holders().into(), note: " (lock.max-holders)" };
    Ok(Room::limit(number(limit, range)? as u32).unwrap_or(Room::ONE))
}

/// Reads the number that follows `SLOT`, which must not be above `LIMIT`.
fn slot(arg: Arg<'_>, limit: Room) -> Result<Slot, Error> {
    let range = Range { option: "SLOT", max: limit.most().unwrap_or(0).into(), note: " (LIMIT)" };
    Slot::new(number(arg, range)? as u32).ok_or_else(|| Error::OutOfRange(range.into()))
}

/// Returns how many holders (the room) a request with `SHARED` (`limit` is `None`) or `LIMIT` allows. With `LIMIT`, also returns the
/// requested slot.
#[inline(never)]
pub(super) fn permit(
    limit: Option<Arg<'_>>,
    slot: Option<Arg<'_>>,
) -> Result<(Room, Option<SlotRequest>), Error> {
    let room = room(limit)?;
    match (limit, slot) {
        (None, Some(_)) => Err(Error::Syntax("SLOT".into())),
        (None, None) => Ok((room, None)),
        (Some(_), None) => Ok((room, Some(SlotRequest::Least))),
        (Some(_), Some(slot)) => Ok((room, Some(SlotRequest::This(self::slot(slot, room)?)))),
    }
}

/// Reads the argument of `MAXHOLD`, in ms.
fn max_hold(arg: Arg<'_>) -> Result<Millis, Error> {
    number(arg, up_to(LONGEST_LEASE, "MAXHOLD")).map(u64::cast_signed)
}

fn label(arg: Arg<'_>) -> Result<&[u8], Error> {
    Some(arg.bytes()).filter(|label| label.len() <= MAX_LABEL_LEN).ok_or(Error::LabelLength)
}

/// Reads `MAXHOLD` and `LABEL`, which few requests have. This function is not inlined, so that its code does not slow down other requests.
#[inline(never)]
pub(super) fn extras(
    max_hold: Option<Arg<'_>>,
    label: Option<Arg<'_>>,
) -> Result<Option<Arc<Extras>>, Error> {
    let max_hold = max_hold.map(self::max_hold).transpose()?;
    Ok(Extras::new(max_hold, label.map(self::label).transpose()?))
}

/// Reads how long to wait, in ms. 0 means without limit.
pub(super) fn timeout(arg: Arg<'_>) -> Result<Millis, Error> {
    match arg.integer() {
        Some(..0) => Err(Error::TimeoutNegative),
        Some(timeout @ 0..=LONGEST_LEASE) => Ok(timeout),
        _ => Err(Error::TimeoutNotAnInteger),
    }
}

/// The unit of a lease: ms or seconds.
#[derive(Clone, Copy)]
pub(super) enum Unit {
    Px = 1,
    Ex = 1000,
}

impl Unit {
    /// Returns the unit of the value of this option; `None` if the word is another option.
    pub(super) fn of(word: &[u8]) -> Option<Self> {
        if is(word, "PX") {
            Some(Self::Px)
        } else if is(word, "EX") {
            Some(Self::Ex)
        } else {
            None
        }
    }

    /// Returns the error for a lease that is not an integer, or longer than `max` ms.
    #[cold]
    #[inline(never)]
    fn error(self, is_integer: bool, max: Millis) -> Error {
        let option = if matches!(self, Self::Px) { "PX" } else { "EX" };
        let note = if max < LONGEST_LEASE { " (lock.max-lease)" } else { "" };
        match is_integer {
            true => {
                Error::OutOfRange(Range { option: "the lease", max, note: " ms (lock.max-lease)" }.into())
            }
            false => Error::NotAnInteger(Range { option, max: max / self as Millis, note }.into()),
        }
    }
}

/// Reads a lease, and returns it in ms.
#[inline(always)]
pub(super) fn lease(unit: Unit, arg: Arg<'_>, command: &'static str) -> Result<Millis, Error> {
    let max = config::max_lease();
    let count = arg.integer().ok_or_else(|| unit.error(false, max))?;
    let lease = count.checked_mul(unit as Millis).filter(|millis| (1..=LONGEST_LEASE).contains(millis));
    let Some(lease) = lease else { return Err(Error::InvalidExpire { command }) };
    if lease > max { Err(unit.error(true, max)) } else { Ok(lease) }
}
