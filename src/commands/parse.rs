//! Parses arguments that several commands take.

use std::collections::BTreeSet;
use std::num::{NonZeroU32, NonZeroU64};
use std::sync::Arc;

use crate::config;
use crate::error::Error;
use crate::lock::{Extras, LONGEST_LEASE, MAX_LABEL_LEN, Millis, Owner, Room, Slot, SlotRequest};
use crate::server::{Arg, Args, Argument};
use crate::waiting::{Channel, Confirm};

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

/// Returns the argument at this place, or an error if there is none. This check is needed because Redis does not check the number of
/// arguments of commands from an append-only file.
pub(super) fn required<'a>(args: Args<'a>, place: usize) -> Result<Arg<'a>, Error> {
    args.get(place).ok_or(Error::Syntax)
}

/// Reads the number of keys, and the keys, which must differ from each other. Returns the keys and the arguments after them.
pub(super) fn keys<'a>(args: Args<'a>) -> Result<(Vec<Arg<'a>>, impl Iterator<Item = Arg<'a>>), Error> {
    let count = required(args, 1)?.integer().and_then(|count| usize::try_from(count).ok());
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
    Ok((keys, args.skip(count.saturating_add(2))))
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

/// Returns the next word, which is the value of an option.
pub(super) fn value<'a>(words: &mut impl Iterator<Item = Arg<'a>>) -> Result<Arg<'a>, Error> {
    words.next().ok_or(Error::Syntax)
}

/// Stores an option. Returns an error if `option` already has a value, from the same option or from an option that excludes it.
pub(super) fn set<T>(option: &mut Option<T>, value: T) -> Result<(), Error> {
    match option.replace(value) {
        None => Ok(()),
        Some(_) => Err(Error::Syntax),
    }
}

#[inline(always)]
pub(super) fn owner(arg: Arg<'_>) -> Result<Owner<'_>, Error> {
    Owner::new(arg.bytes()).ok_or(Error::OwnerLength)
}

/// The number of replicas that have to confirm the command, and how many ms the client waits for them.
pub(super) const SYNC: Argument =
    Argument::block(c"sync", &[Argument::integer(c"replicas"), Argument::integer(c"milliseconds")])
        .after(c"SYNC")
        .optional();

/// Reads the two arguments of `SYNC`: the number of replicas, and the longest time in ms to wait for them.
#[inline(never)]
pub(super) fn confirm<'a>(words: &mut impl Iterator<Item = Arg<'a>>) -> Result<Confirm, Error> {
    let mut positive = || match value(words)?.integer() {
        Some(..=0) => Err(Error::NotPositive),
        number => number.and_then(|number| u32::try_from(number).ok()).ok_or(Error::NotAnInteger),
    };
    let (replicas, within) = (positive()?, positive()?);
    Ok(Confirm { replicas: NonZeroU32::new(replicas).ok_or(Error::NotPositive)?, within })
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
    match arg.integer().ok_or(Error::NotAnInteger)? {
        ..=0 => Err(Error::NotPositive),
        number => NonZeroU64::new(number.unsigned_abs()).ok_or(Error::NotPositive),
    }
}

/// Reads a cursor, which the previous page's reply gave. 0 stands for the first page.
pub(super) fn cursor(arg: Arg<'_>) -> Result<u64, Error> {
    arg.integer().and_then(|cursor| u64::try_from(cursor).ok()).ok_or(Error::InvalidCursor)
}

/// Reads the number of entries to show, which must be from 1 to `max`.
pub(super) fn count(arg: Arg<'_>, max: usize) -> Result<usize, Error> {
    let count = arg.integer().ok_or(Error::NotAnInteger)?;
    let count = usize::try_from(count).ok().filter(|count| (1..=max).contains(count));
    count.ok_or(Error::CountOutOfRange { max })
}

/// Reads a fence, to compare it with the fence of a grant. The number may be above the greatest possible fence.
pub(super) fn fence(arg: Arg<'_>) -> Result<u64, Error> {
    match arg.integer().ok_or(Error::NotAnInteger)? {
        ..=0 => Err(Error::NotPositive),
        fence => Ok(fence.unsigned_abs()),
    }
}

/// Returns how many holders (the room) a request with `LIMIT` allows. With `SHARED`, `limit` is `None`, and the number is unlimited.
fn room(limit: Option<Arg<'_>>) -> Result<Room, Error> {
    let Some(limit) = limit else { return Ok(Room::ANY) };
    let limit = limit.integer().ok_or(Error::NotAnInteger)?;
    if limit <= 0 {
        return Err(Error::NotPositive);
    }
    match config::max_holders() {
        max if limit > max.into() => Err(Error::LimitTooGreat { max }),
        _ => u32::try_from(limit).ok().and_then(Room::limit).ok_or(Error::NotAnInteger),
    }
}

/// Reads the number that follows `SLOT`, which must not be above `LIMIT`.
fn slot(arg: Arg<'_>, limit: Room) -> Result<Slot, Error> {
    let slot = arg.integer().ok_or(Error::NotAnInteger)?;
    if slot <= 0 {
        return Err(Error::NotPositive);
    }
    let max = limit.most().unwrap_or(0);
    let slot = u32::try_from(slot).ok().filter(|slot| *slot <= max).and_then(Slot::new);
    slot.ok_or(Error::SlotTooGreat { max })
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
        (None, Some(_)) => Err(Error::Syntax),
        (None, None) => Ok((room, None)),
        (Some(_), None) => Ok((room, Some(SlotRequest::Least))),
        (Some(_), Some(slot)) => Ok((room, Some(SlotRequest::This(self::slot(slot, room)?)))),
    }
}

/// Reads the argument of `MAXHOLD`, in ms.
fn max_hold(arg: Arg<'_>) -> Result<Millis, Error> {
    match arg.integer().ok_or(Error::NotAnInteger)? {
        ..=0 => Err(Error::NotPositive),
        age @ 1..=LONGEST_LEASE => Ok(age),
        _ => Err(Error::NotAnInteger),
    }
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

#[derive(Clone, Copy)]
pub(super) enum Unit {
    Seconds,
    Millis,
}

impl Unit {
    /// Returns the unit of an option's value: seconds for `EX`, ms for `PX`. Returns `None` if the word is another option.
    pub(super) fn of(word: &[u8]) -> Option<Self> {
        if is(word, "PX") {
            Some(Self::Millis)
        } else if is(word, "EX") {
            Some(Self::Seconds)
        } else {
            None
        }
    }
}

/// Reads a lease, and returns it in ms.
pub(super) fn lease(unit: Unit, arg: Arg<'_>, command: &'static str) -> Result<Millis, Error> {
    let count = arg.integer().ok_or(Error::NotAnInteger)?;
    let millis = match unit {
        Unit::Seconds => count.checked_mul(1000),
        Unit::Millis => Some(count),
    };
    let lease = millis
        .filter(|millis| (1..=LONGEST_LEASE).contains(millis))
        .ok_or(Error::InvalidExpire { command })?;
    match config::max_lease() {
        max if lease > max => Err(Error::LeaseTooLong { max }),
        _ => Ok(lease),
    }
}
