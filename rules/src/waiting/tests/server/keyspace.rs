//! Changes of a lock's key, on a primary and on a replica.

use super::{Lock, Server};
use crate::encoding::Effect;
use crate::lock::{Deadline, Fence, Grant, Millis, Value};

impl Server {
    /// Adds a grant to a lock.
    pub(crate) fn put(&mut self, lock: Lock, grant: Grant, end: Deadline) {
        match &mut self.locks[lock] {
            Some((value, until)) => *until = value.put(grant, end, *until),
            None => self.locks[lock] = Some((Value::One(grant), end)),
        }
    }

    /// Ends the grant of a lock with this fence.
    pub(crate) fn end(&mut self, lock: Lock, fence: Fence) {
        self.locks[lock].take_if(|(value, until)| match value.end(fence, *until) {
            Some(new_until) => {
                *until = new_until;
                false
            }
            None => true,
        });
    }

    /// If a lock has several grants, ends at most `most` grants whose leases ended before `now`, and returns their fences.
    pub(crate) fn end_lapsed(&mut self, lock: Lock, now: Millis, most: usize) -> Vec<Fence> {
        let lapsed = |(value, until): &(Value, Deadline)| value.lapsed(*until, now).take(most).collect();
        let lapsed: Vec<Fence> = self.locks[lock].as_ref().map(lapsed).unwrap_or_default();
        for fence in &lapsed {
            self.end(lock, *fence);
        }
        lapsed
    }

    /// Applies an effect, as a replica does.
    pub(crate) fn apply(&mut self, (lock, effect): (Lock, Effect)) {
        match effect {
            Effect::Alone(grant, until) => {
                self.fences.observe(grant.fence());
                self.locks[lock] = Some((Value::One(grant), until));
            }
            Effect::Among(grant, end) => {
                self.fences.observe(grant.fence());
                self.put(lock, grant, end);
            }
            Effect::Lease(until) => {
                if let Some((_, old)) = &mut self.locks[lock] {
                    *old = until;
                }
            }
            Effect::Ended(fence) => self.end(lock, fence),
            Effect::Lapsed(now) => _ = self.end_lapsed(lock, now, usize::MAX),
            Effect::Free => self.locks[lock] = None,
        }
    }
}
