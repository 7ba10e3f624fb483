//! Finds a wait that could never end: its owner waits for other owners, which wait for locks that this owner holds (`DETECT`).
//!
//! The question is asked once, before the wait begins. While queues are served in order, and an owner that waits does nothing else, only
//! another new wait can close a cycle later.
//!
//! - `search` goes from the new wait to everything that it depends on: the holders of its locks, the waits ahead of it in the queues, and
//!   what these waits depend on in turn.
//! - `graph` finds which of these waits can never end, if every owner that does not wait releases its locks at some time; and the cycle
//!   through the new wait.
//!
//! The search is limited, and waits that it has not looked at count as able to end. So it may miss a cycle, but it never reports a cycle
//! that does not exist.

mod graph;
mod search;

use super::table::LockId;
use crate::lock::{Deadline, Grant, Millis, Owner, Value};

pub(crate) use search::cycle;

/// The most holders, waiters and locks that one search looks at, not counting the locks that the command names.
const MOST: usize = 1000;

/// The most holders and waiters that are compared to find which waits can end. Each is compared again whenever something that it depends on
/// may have ended.
const MOST_COMPARED: usize = 50_000;

/// The cycle of a wait that would never end: each link leads to the next, and the last link to the first.
pub(crate) type Cycle = Box<[Link]>;

#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(Hash))]
pub(crate) struct Link {
    /// The owner that waits.
    pub(crate) waits: Owner<'static>,
    pub(crate) id: LockId,
    pub(crate) other: Owner<'static>,
    /// Whether `other` waits for the lock too, and is ahead. Otherwise it holds the lock.
    pub(crate) behind: bool,
}

/// A holder of a lock.
#[derive(Clone, Debug)]
pub(crate) struct Holder {
    pub(crate) grant: Grant,
    pub(crate) deadline: Deadline,
}

/// The holders of a lock whose leases are not over, `most` at most.
pub(crate) fn holders(value: Option<&Value>, until: Deadline, now: Millis, most: usize) -> Vec<Holder> {
    let alive = value.into_iter().flat_map(|value| value.alive(until, now));
    alive.take(most).map(|held| Holder { grant: held.grant.clone(), deadline: held.deadline }).collect()
}
