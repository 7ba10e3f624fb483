//! One lock: its queue, its session, and the grants of waiters that are not told yet.

use std::collections::BTreeSet;

use super::message::Watch;
use super::queue::{Queue, Ticket};
use super::waiter::Session;
use crate::lock::{Fence, Grant, Millis};

/// What is known of one lock beside its grant. Grants are told apart by their fences: on one lock no two have the same.
#[derive(Debug, Default)]
#[cfg_attr(test, derive(Clone, PartialEq, Eq, Hash))]
pub(super) struct Line {
    pub(super) queue: Queue,
    /// Keeps the grant alive.
    pub(super) session: Option<Session>,
    pub(super) alarm: Option<Millis>,
    pub(super) renewal: Option<Millis>,
    /// By grant, those who were given it and may turn out to be gone: until the server has freed them, told or not.
    pub(super) given: BTreeSet<(Fence, Ticket)>,
    /// The same of those who are notified: until they claim it, or give it up.
    pub(super) unclaimed: BTreeSet<(Fence, Ticket)>,
    /// Those of them who were given it without a hold of their own (`ONCE`).
    pub(super) sharers: BTreeSet<(Fence, Ticket)>,
    /// Grants whose waiter went away before it was answered, one for each hold.
    pub(super) dead: Vec<Fence>,
    /// A grant whose lease ended while this server stood still, and whose session outlives that. A box, since that is rare.
    pub(super) lapsed: Option<Box<Lapsed>>,
    /// The holder hears what becomes of its grant. A box, since few do.
    pub(super) watch: Option<Box<Watch>>,
}

/// A grant that the server has deleted, since its lease was over.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone, PartialEq, Eq, Hash))]
pub(crate) struct Lapsed {
    pub(crate) grant: Grant,
    /// Something has been done to the key since: it is not given back.
    pub(crate) for_good: bool,
    /// How much had happened to keys when it was kept.
    pub(super) kept_at: u64,
}

/// What there is of a line that a look at the lock sees to.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Due {
    /// A grant whose lease ended while this server stood still.
    pub(crate) lapsed: bool,
    /// A grant whose waiter went away.
    pub(crate) dead: bool,
    pub(crate) session: bool,
    /// The grant whose holder hears what becomes of it.
    pub(crate) watched: Option<Fence>,
}

impl Line {
    /// Whether nothing is left of it.
    pub(super) fn is_over(&self) -> bool {
        self.queue.is_empty()
            && self.session.is_none()
            && self.given.is_empty()
            && self.unclaimed.is_empty()
            && self.dead.is_empty()
            && self.lapsed.is_none()
            && self.watch.is_none()
    }

    /// Whatever was granted is no more this server's to take back or to keep alive.
    pub(super) fn forget_grants(&mut self) {
        self.dead.clear();
        self.lapsed = None;
    }
}

/// There is one for each lock that is waited for, or kept alive. Allocators step from 256 bytes to 320.
const _: () = assert!(size_of::<Line>() <= 256);
