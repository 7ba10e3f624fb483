//! Detects a wait that would never end (`DETECT`): its owner would wait for other owners, which wait for locks that this owner holds.
//!
//! The search runs once, before the wait begins. Because queues are served in order, and an owner that waits does nothing else, only
//! another new wait can close a cycle later.
//!
//! - `search` follows what the new wait depends on: the holders of its locks, the waits ahead in the queues, and so on.
//! - `graph` finds the waits that can never end, and the cycle through the new wait. It assumes that every owner that does not wait
//!   releases its locks at some time.
//!
//! The search is bounded, and waits that it has not looked at count as able to end. Because of this bound, the search may miss a cycle, but
//! does not report a cycle that does not exist.

mod graph;
mod search;

use super::table::LockId;
use crate::lock::{Deadline, Grant, Millis, Owner, Value};

pub(super) use search::cycle;

/// The most holders, waiters and locks that one search looks at, without the locks that the command names.
const MOST: usize = 1000;

/// The most comparisons of waits with holders and waiters that one search makes. The search compares a wait again whenever something that
/// the wait depends on may have ended.
const MOST_COMPARED: usize = 50_000;

/// A cycle of waits: each link leads to the next, and the last link to the first.
pub type Cycle = Box<[Link]>;

#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(Hash))]
pub struct Link {
    /// The owner that waits.
    pub waits: Owner<'static>,
    pub id: LockId,
    pub other: Owner<'static>,
    /// Whether `other` is ahead of `waits` in the queue for the lock. If not, `other` holds the lock.
    pub behind: bool,
}

#[derive(Clone, Debug)]
pub struct Holder {
    pub grant: Grant,
    pub deadline: Deadline,
}

/// Returns the holders of a lock whose leases have not ended, but at most `most` of them, the oldest grants first.
pub fn holders(value: Option<&Value>, until: Deadline, now: Millis, most: usize) -> Vec<Holder> {
    let alive = value.into_iter().flat_map(|value| value.alive(until, now));
    alive.take(most).map(|held| Holder { grant: held.grant.clone(), deadline: held.deadline }).collect()
}
