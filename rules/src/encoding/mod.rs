//! What files and replicas have of a lock: its grants as bytes, and its changes as text (`effect`).
//!
//! The encoding has each grant in one string of bytes, the oldest grant first.
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
mod packed;

use packed::{Unpacked, pack, unpack};

pub use deadlines::latest;
pub use effect::{Effect, number_of, state};

use crate::lock::{Deadline, Fence, Grant, Millis, Value};

/// Returns the grants of a lock as bytes, the oldest first.
pub fn save(value: &Value) -> impl Iterator<Item = Vec<u8>> {
    let (endless, count) = (value.is_endless(), value.count());
    let grants = value.all(latest(endless)).enumerate();
    grants.map(move |(number, held)| pack(held, endless, number + 1 < count))
}

/// Reads a lock that `save` wrote. `next` returns the bytes of the next grant, and `now` is in ms since 1970. Returns an error that says
/// what is wrong with the bytes.
pub fn load(mut next: impl FnMut() -> Result<Vec<u8>, String>, now: Millis) -> Result<Value, String> {
    let mut grants = Loading::default();
    loop {
        let Unpacked { grant, deadline, endless, more } = unpack(&next()?, now)?;
        grants.add(grant, deadline)?;
        if !more {
            return grants.value(endless);
        }
    }
}

/// The grants of a lock that have been read so far.
#[derive(Default)]
struct Loading {
    /// The grants, and the end of the lease that ends last.
    value: Option<(Value, Deadline)>,
    last: Option<Fence>,
    count: usize,
}

impl Loading {
    fn add(&mut self, grant: Grant, deadline: Deadline) -> Result<(), String> {
        self.count += 1;
        let fence = grant.fence();
        if self.last.replace(fence) >= Some(fence) {
            return Err(format!("the fence {} behind another", fence.get()));
        }
        let Some((value, until)) = &mut self.value else {
            self.value = Some((Value::One(grant), deadline));
            return Ok(());
        };
        if let Some(twice) = grant.explicit_slot().filter(|slot| value.slots().has(*slot)) {
            return Err(format!("the slot {} twice", twice.get()));
        }
        *until = value.put(grant, deadline, *until);
        Ok(())
    }

    /// Returns the value with all grants. `endless` says whether the lease that ends last has no end. If it has one, this lease ends with
    /// the TTL of the key. Returns an error if the grants can't hold a lock together.
    fn value(self, endless: bool) -> Result<Value, String> {
        let (value, until) =
            self.value.filter(|(value, _)| value.count() == self.count).ok_or("two grants of one owner")?;
        if until != latest(endless) {
            return Err("no lease that is the latest".into());
        }
        if value.room().most().is_some_and(|most| (most as usize) < self.count) {
            return Err(format!("{} grants where one has not the room", self.count));
        }
        Ok(value)
    }
}
