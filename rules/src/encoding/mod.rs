//! What files and replicas have of a lock: its grants as bytes, and its changes as text (`effect`).
//!
//! Encoding 2 has each grant in one string of bytes, the oldest grant first. Encoding 1 is only read, in `keyspace`.
//!
//! | bytes | content |
//! |---|---|
//! | flags | bit 0: the owner is a UUID; 1: another grant follows; 2: the lease that ends last has no end; 3: there is an `end`. From bit 4 on, a bit for each field of `lock::FIELDS`: whether `fields` has it. Other fields have their usual values |
//! | fence | 7 bytes, the lowest first: 1 to 2^53 - 1 |
//! | end | by how many ms the lease is shorter than the latest (the lease that ends last); if the latest has no end, the end in ms since 1970. If absent, this lease is the latest |
//! | fields | each a number, or a number of bytes and then the bytes |
//! | owner | a UUID in 16 bytes, or the name |
//!
//! Numbers, including the flags but not the fence, have seven bits in each byte, the lowest first. The highest bit of a byte says that
//! another byte follows.
//!
//! The end of the latest lease is the key's TTL, which the server writes itself. Because `PEXPIRE` can set any TTL that the server accepts,
//! the ends of leases, and the differences between them, may be any number below 2^63.

mod deadlines;
mod effect;
mod grants;
mod packed;

use packed::{Unpacked, pack, unpack};

pub use deadlines::{deadline_of, latest};
pub use effect::{Effect, number_of, room, slot, state};
pub use grants::Grants;

use crate::lock::{Millis, Value};

/// Returns the grants of a lock as bytes, the oldest first.
pub fn save(value: &Value) -> impl Iterator<Item = Vec<u8>> {
    let (endless, count) = (value.is_endless(), value.count());
    let grants = value.all(latest(endless)).enumerate();
    grants.map(move |(number, held)| pack(held, endless, number + 1 < count))
}

/// Reads a lock that `save` wrote. `next` returns the bytes of the next grant, and `now` is in ms since 1970. Returns an error that says
/// what is wrong with the bytes.
pub fn load(mut next: impl FnMut() -> Result<Vec<u8>, String>, now: Millis) -> Result<Value, String> {
    let mut grants = Grants::default();
    loop {
        let Unpacked { grant, deadline, endless, more } = unpack(&next()?, now)?;
        grants.add(grant, deadline)?;
        if !more {
            return grants.value(endless);
        }
    }
}
