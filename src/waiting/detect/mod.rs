//! Whether a wait could never end: its owner holds what those it waits for wait for (`DETECT`).
//!
//! It is asked once, before the wait begins. While queues are served in order, and an owner that waits does nothing else, no
//! later event closes a circle but another wait that begins.
//!
//! - `search` goes from the new wait to all that it depends on: the holders of its locks, those ahead of it in the queues, and what
//!   those wait for in turn.
//! - `graph` tells which of these waits can never end, if whoever does not wait gives everything back in the end; and finds the
//!   circle through the new one.
//!
//! The search looks at so much and no more; what it has not looked at counts as able to end. So it may miss a circle, but never
//! tells of one that there is not.

mod graph;
mod search;

use super::table::LockId;
use crate::lock::{Deadline, Fence, Grant, Millis, Owner, Value};

pub(crate) use search::circle;

/// How many holders, waiters and locks one search looks at, beside the locks that the command names.
const MOST: usize = 1000;

/// How many holders and waiters it compares to tell which waits can end: each of them as often as something that it depends on may
/// have ended.
const MOST_COMPARED: usize = 50_000;

/// A wait that would never end, and how it comes round to itself: each link leads to the next, and the last to the first.
pub(crate) type Circle = Box<[Link]>;

#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(Hash))]
pub(crate) struct Link {
    /// The owner that waits.
    pub(crate) waits: Owner<'static>,
    pub(crate) id: LockId,
    pub(crate) other: Owner<'static>,
    /// The other waits for it too, and came before. Else it holds it.
    pub(crate) behind: bool,
}

/// A holder of a lock.
#[derive(Clone, Debug)]
pub(crate) struct Holder {
    pub(crate) grant: Grant,
    pub(crate) deadline: Deadline,
}

/// The holders in the value of a lock whose leases are not over, so many at most.
pub(crate) fn holders(value: Option<&Value>, until: Deadline, now: Millis, most: usize) -> Vec<Holder> {
    let alive = value.into_iter().flat_map(|value| value.alive(until, now));
    alive.take(most).map(|held| Holder { grant: held.grant.clone(), deadline: held.deadline }).collect()
}

impl Holder {
    fn fence(&self) -> Fence {
        self.grant.fence()
    }
}
