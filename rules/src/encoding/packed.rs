//! Encodes a grant in one string of bytes, and decodes it. `mod.rs` has a table of the bytes.

use super::deadlines::{deadline_of, number_of};
use crate::lock::{Datum, Deadline, FIELDS, Fence, Full, Grant, Held, Millis, Owner};

const UUID: u64 = 1;
const MORE: u64 = 1 << 1;
const ENDLESS: u64 = 1 << 2;
const DEADLINE: u64 = 1 << 3;
/// The position of the flag for the first field of `FIELDS`. The flags for the other fields follow.
const FIRST: u32 = 4;

/// A decoded grant, and what its flags say.
pub(super) struct Unpacked {
    pub(super) grant: Grant,
    pub(super) deadline: Deadline,
    pub(super) endless: bool,
    /// Whether another grant follows.
    pub(super) more: bool,
}

/// Encodes a grant. `endless` says whether the lease that ends last has no end. `more` says whether another grant follows.
pub(super) fn pack(Held { grant, deadline }: Held<'_>, endless: bool, more: bool) -> Vec<u8> {
    let owner = grant.owner();
    let deadline = number_of(deadline, endless);
    let is_uuid = matches!(owner, Owner::Uuid(_));
    let flags = [(is_uuid, UUID), (more, MORE), (endless, ENDLESS), (deadline > 0, DEADLINE)];
    let flags = flags.into_iter().filter_map(|(is_set, flag)| is_set.then_some(flag));
    let fields = grant.unusual().map(|(number, _, _)| 1 << (FIRST + number as u32));
    let mut bytes = Vec::with_capacity(64);
    push(&mut bytes, flags.chain(fields).sum());
    let [fence @ .., _] = grant.fence().get().to_le_bytes();
    bytes.extend(fence);
    if deadline > 0 {
        push(&mut bytes, deadline);
    }
    for (_, _, datum) in grant.unusual() {
        match datum {
            Datum::Number(number) => push(&mut bytes, number),
            Datum::Bytes(its) => {
                push(&mut bytes, its.len() as u64);
                bytes.extend(its);
            }
        }
    }
    match owner {
        Owner::Uuid(uuid) => bytes.extend(uuid),
        Owner::Name(name) => bytes.extend_from_slice(&name),
    }
    bytes
}

/// Decodes a grant that `pack` encoded. Returns an error that says what is wrong with the bytes. `now` is in ms since 1970.
pub(super) fn unpack(bytes: &[u8], now: Millis) -> Result<Unpacked, String> {
    let mut rest = Rest(bytes);
    let flags = rest.number()?;
    if flags >> (FIRST + FIELDS.len() as u32) > 0 {
        return Err(format!("the flags {flags:#x}"));
    }
    let [a, b, c, d, e, f, g] = *rest.array()?;
    let fence = u64::from_le_bytes([a, b, c, d, e, f, g, 0]);
    let fence = Fence::new(fence).ok_or_else(|| format!("the fence {fence}"))?;
    let endless = flags & ENDLESS > 0;
    let deadline = if flags & DEADLINE > 0 { rest.number()? } else { 0 };
    let deadline = deadline_of(deadline, endless).ok_or_else(|| format!("the end {deadline}"))?;
    let mut data = Vec::new();
    let has = |number: usize| flags >> (FIRST + number as u32) & 1 > 0;
    for field in FIELDS.iter().enumerate().filter_map(|(number, field)| has(number).then_some(field)) {
        let number = rest.number()?;
        data.push((
            field,
            match field.usual {
                Datum::Number(_) => Datum::Number(number),
                Datum::Bytes(_) => Datum::Bytes(rest.take(number)?),
            },
        ));
    }
    let owner = match flags & UUID > 0 {
        true => rest.array().ok().filter(|_| rest.0.is_empty()).map(|uuid| Owner::Uuid(*uuid)),
        false => Owner::new(rest.0),
    };
    let owner = owner.ok_or_else(|| format!("an owner in {} bytes", rest.0.len()))?;
    let mut full = Full::new(owner.into_owned(), fence);
    for (field, datum) in data {
        (field.set)(&mut full, datum).ok_or_else(|| format!("{} of {datum:?}", field.name))?;
    }
    let grant = full.received(now).ok_or("a slot above the room")?;
    Ok(Unpacked { grant, deadline, endless, more: flags & MORE > 0 })
}

/// Writes a number with seven bits in each byte, the lowest first. All bytes but the last have the highest bit set.
fn push(bytes: &mut Vec<u8>, mut number: u64) {
    while number > 0x7f {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// The bytes of an encoded grant that have not been read yet.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn array<const N: usize>(&mut self) -> Result<&'a [u8; N], &'static str> {
        let (first, rest) = self.0.split_first_chunk().ok_or(CUT_OFF)?;
        self.0 = rest;
        Ok(first)
    }

    fn take(&mut self, len: u64) -> Result<&'a [u8], &'static str> {
        let len = usize::try_from(len).map_err(|_| CUT_OFF)?;
        let (first, rest) = self.0.split_at_checked(len).ok_or(CUT_OFF)?;
        self.0 = rest;
        Ok(first)
    }

    /// Reads a number that `push` wrote.
    fn number(&mut self) -> Result<u64, &'static str> {
        let mut number = 0;
        for shift in (0..u64::BITS).step_by(7) {
            let [byte] = *self.array()?;
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                break;
            }
            number |= bits << shift;
            if byte <= 0x7f {
                return Ok(number);
            }
        }
        Err("a number of more than 64 bits")
    }
}

const CUT_OFF: &str = "a grant that ends early";
