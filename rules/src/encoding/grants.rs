//! Collects the grants of a lock while a file or payload is read. Returns an error if the grants can't hold a lock together.

use super::deadlines::latest;
use crate::lock::{Deadline, Fence, Grant, Value};

/// The grants of a lock that have been read so far.
#[derive(Default)]
pub struct Grants {
    /// The grants, and the end of the lease that ends last.
    value: Option<(Value, Deadline)>,
    last: Option<Fence>,
    count: usize,
}

impl Grants {
    pub fn add(&mut self, grant: Grant, deadline: Deadline) -> Result<(), String> {
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
    pub fn value(self, endless: bool) -> Result<Value, String> {
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
