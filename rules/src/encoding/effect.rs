//! Effects are commands that carry the changes of locks to replicas and the append-only file. Each effect is a `LOCK.APPLY`:
//!
//! | form | new state of the lock |
//! |---|---|
//! | `LOCK.APPLY key` | free |
//! | `LOCK.APPLY key deadline` | held as before, and the lease that ends last ends at this deadline |
//! | `LOCK.APPLY key deadline,fence,holds,max-hold,owner` | held only by this grant, which is exclusive |
//! | `LOCK.APPLY key @deadline,fence,fields,=owner` | held by this grant alone |
//! | `LOCK.APPLY key &deadline,fence,fields,=owner` | held by this grant beside the present grants |
//! | `LOCK.APPLY key ~fence` | no longer held by the grant with this fence |
//! | `LOCK.APPLY key <time` | no longer held by the grants whose leases ended before this time. A lock with a single grant stays as it is |
//!
//! `deadline` and `time` are in ms since 1970. A deadline of -1 means that the lease has no end. `max-hold` is in ms, and 0 means no limit.
//! A fence is usually the time of its grant, in microseconds since 1970. In the form without a sign, `max-hold/made` takes the place of
//! `max-hold` if the grant was made in another millisecond than its fence says; `made` is the time of the grant in ms since 1970. `fields`
//! are the fields of `lock::FIELDS` whose values differ from `Field::usual`, each as `name:number` and a comma. The `=` ends the fields. If
//! the value of a field is bytes, the number is their length, and the bytes follow the `=`, in the order of the fields. The owner comes
//! last, because its name can have any bytes, even a comma. The state is one argument, because each further argument costs about 1,000
//! instructions to make and to append to a file (Redis 7.0). If a lock has many grants, an effect has only the grant that has changed.

use std::str;

use crate::lock::{
    Datum, Deadline, Extras, FIELDS, Fence, Full, Grant, LONGEST_LEASE, Micros, Millis, Owner,
};

/// The number that stands for the deadline of a lease that never ends, as in replies of `PTTL`.
const NO_DEADLINE: Millis = -1;

/// How many bytes to reserve for the text of a state. This is enough if the owner is a UUID.
const TYPICAL_LEN: usize = 96;

/// The fields of `lock::FIELDS` that the short form of an effect (`deadline,fence,holds,max-hold,owner`) can have. `made`, if present,
/// follows `max-hold` after a slash.
const IN_SHORT: [&str; 3] = ["holds", "max-hold", "made"];

/// The new state of a lock.
#[cfg_attr(test, derive(Clone, Debug, PartialEq, Eq, Hash))]
pub enum Effect {
    Free,
    Lease(Deadline),
    /// The lock is held by this grant alone.
    Alone(Grant, Deadline),
    /// The lock is held by this grant beside the present grants.
    Among(Grant, Deadline),
    Ended(Fence),
    Lapsed(Millis),
}

impl Effect {
    /// Reads the argument of `LOCK.APPLY` after the key, which is absent if the lock is free. Returns `None` if the argument is malformed.
    /// Calls `now` only if the argument has a grant.
    pub fn parse(state: Option<&[u8]>, now: impl FnOnce() -> Micros) -> Option<Self> {
        match state {
            None => Some(Self::Free),
            Some([b'~', fence @ ..]) => self::fence(fence).map(Self::Ended),
            Some([b'<', time @ ..]) => number(time).map(Self::Lapsed),
            Some([b'@', state @ ..]) => any_grant(state, now).map(Self::alone),
            Some([b'&', state @ ..]) => any_grant(state, now).map(Self::among),
            Some(state) if !state.contains(&b',') => deadline(state).map(Self::Lease),
            Some(state) => short(state, now).map(Self::alone),
        }
    }

    fn alone((grant, deadline): (Grant, Deadline)) -> Self {
        Self::Alone(grant, deadline)
    }

    fn among((grant, deadline): (Grant, Deadline)) -> Self {
        Self::Among(grant, deadline)
    }
}

/// Reads `deadline,fence,fields,=owner`.
fn any_grant(state: &[u8], now: impl FnOnce() -> Micros) -> Option<(Grant, Deadline)> {
    let (deadline, rest) = part(state)?;
    let (fence, mut rest) = part(rest)?;
    let (deadline, fence) = (self::deadline(deadline)?, self::fence(fence)?);
    let mut fields = Vec::new();
    while !rest.starts_with(b"=") {
        let (field, others) = part(rest)?;
        let colon = field.iter().position(|&byte| byte == b':')?;
        let (name, value) = field.split_at_checked(colon)?;
        let field = FIELDS.iter().find(|field| field.name.as_bytes() == name)?;
        fields.push((field, u64::try_from(number(value.get(1..)?)?).ok()?));
        rest = others;
    }
    let mut bytes = rest.get(1..).unwrap_or_default();
    let mut data = Vec::with_capacity(fields.len());
    for (field, value) in fields {
        data.push((
            field,
            match field.usual {
                Datum::Number(_) => Datum::Number(value),
                Datum::Bytes(_) => {
                    let len = usize::try_from(value).ok()?;
                    let (its, others) = bytes.split_at_checked(len)?;
                    bytes = others;
                    Datum::Bytes(its)
                }
            },
        ));
    }
    let mut full = Full::new(Owner::new(bytes)?.into_owned(), fence);
    let set = data.into_iter().try_for_each(|(field, datum)| (field.set)(&mut full, datum));
    let grant = set.and_then(|()| full.received(now() / 1000))?;
    Some((grant, deadline))
}

/// Returns the text before the first comma and the text after this comma; `None` if there is no comma.
fn part(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut parts = text.splitn(2, |&byte| byte == b',');
    parts.next().zip(parts.next())
}

/// Reads `deadline,fence,holds,max-hold,owner`.
fn short(state: &[u8], now: impl FnOnce() -> Micros) -> Option<(Grant, Deadline)> {
    let mut parts = state.splitn(5, |&byte| byte == b',');
    let (deadline, fence) = (deadline(parts.next()?)?, fence(parts.next()?)?);
    let holds = u32::try_from(number(parts.next()?)?).ok().filter(|&holds| holds > 0)?;
    let mut ages = parts.next()?.splitn(2, |&byte| byte == b'/').map(number);
    let max_hold = ages.next()??;
    let made = match ages.next() {
        Some(made) => Some(made?),
        None => None,
    };
    if !(0..=LONGEST_LEASE).contains(&max_hold) || made.is_some_and(|made| made < 0) {
        return None;
    }
    let owner = Owner::new(parts.next()?)?;
    let extras = Extras::new(Some(max_hold).filter(|age| *age > 0), None);
    let grant = Grant::received(owner, fence, holds, extras, made, now() / 1000);
    Some((grant, deadline))
}

fn deadline(text: &[u8]) -> Option<Deadline> {
    number(text).map(|at| if at < 0 { Deadline::Never } else { Deadline::At(at) })
}

fn fence(text: &[u8]) -> Option<Fence> {
    u64::try_from(number(text)?).ok().and_then(Fence::new)
}

fn number(text: &[u8]) -> Option<i64> {
    str::from_utf8(text).ok()?.parse().ok()
}

/// Returns the argument of `LOCK.APPLY` after the key, for a lock that is held by `grant`, alone or beside other grants.
pub fn state(grant: &Grant, deadline: Deadline, alone: bool) -> Vec<u8> {
    let mut state = Vec::with_capacity(TYPICAL_LEN);
    let mut digits = itoa::Buffer::new();
    let is_plain = grant.room().is_exclusive() && grant.explicit_slot().is_none() && grant.label().is_empty();
    let in_short = alone && is_plain;
    debug_assert!(!in_short || grant.unusual().all(|(_, field, _)| IN_SHORT.contains(&field.name)));
    if !in_short {
        state.push(if alone { b'@' } else { b'&' });
    }
    let mut add = |number: &str, separator: u8| {
        state.extend_from_slice(number.as_bytes());
        state.push(separator);
    };
    add(digits.format(number_of(deadline)), b',');
    add(digits.format(grant.fence().get()), b',');
    if in_short {
        add(digits.format(grant.holds()), b',');
        let max_hold = grant.max_hold().unwrap_or(0);
        match grant.explicit_made() {
            None => add(digits.format(max_hold), b','),
            Some(made) => {
                add(digits.format(max_hold), b'/');
                add(digits.format(made), b',');
            }
        }
    } else {
        let mut bytes = Vec::new();
        for (_, field, datum) in grant.unusual() {
            add(field.name, b':');
            add(
                digits.format(match datum {
                    Datum::Number(number) => number,
                    Datum::Bytes(its) => {
                        bytes.extend_from_slice(its);
                        its.len() as u64
                    }
                }),
                b',',
            );
        }
        add("", b'=');
        state.extend_from_slice(&bytes);
    }
    state.extend_from_slice(grant.owner().text().as_ref());
    state
}

/// Returns the number that stands for a deadline.
pub fn number_of(deadline: Deadline) -> Millis {
    match deadline {
        // A negative number would mean that there is no deadline.
        Deadline::At(at) => at.max(0),
        Deadline::Never => NO_DEADLINE,
    }
}
