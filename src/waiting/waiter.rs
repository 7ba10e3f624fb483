//! One waiter, on its way from its place in a queue to its answer; and one session.

use std::sync::Arc;

use crate::lock::{Ask, Fence, Micros, Millis, Owner};
use crate::server::Blocked;

/// A lock, by database and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) db: i32,
    pub(super) key: Arc<[u8]>,
}

/// What a waiter is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Granted { fence: Fence, holds: u32, lease: Millis },
    WrongType,
    TooManyHolds,
    TimedOut,
}

/// A waiter that is being told.
pub(super) struct Told {
    pub(super) place: Place,
    pub(super) ask: Ask<'static>,
    pub(super) client_id: u64,
    pub(super) answer: Answer,
}

/// Where a waiter is on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// In its line.
    Queued,
    /// Out of its line; to be told.
    Answered(Answer),
    /// Told.
    Told(Answer),
    /// Out of its line without an answer: sent away, or gone.
    Left,
}

impl Phase {
    /// The grant that a waiter has been given, told or not, by its fence.
    pub(super) fn granted(self) -> Option<Fence> {
        match self {
            Self::Answered(Answer::Granted { fence, .. }) | Self::Told(Answer::Granted { fence, .. }) => {
                Some(fence)
            }
            _ => None,
        }
    }
}

pub(super) struct Waiter {
    pub(super) place: Place,
    /// Its lease starts when it is granted.
    pub(super) ask: Ask<'static>,
    pub(super) phase: Phase,
    pub(super) client: Blocked,
    pub(super) client_id: u64,
    pub(super) since: Micros,
    /// The tick has had it answered; else an operator has, by `CLIENT UNBLOCK`.
    pub(super) unblocked: bool,
    /// 0: without limit.
    pub(super) timeout: Millis,
}

impl Waiter {
    /// The first millisecond in which the waiter has waited long enough; the one it came in has partly gone by.
    pub(super) fn gives_up(&self) -> Option<Millis> {
        (self.timeout > 0).then(|| (self.since / 1000).saturating_add(self.timeout).saturating_add(1))
    }
}

/// One waiter, for `LOCK.INFO ... FULL`.
pub(crate) struct WaiterInfo {
    pub(crate) owner: Owner<'static>,
    pub(crate) client_id: u64,
    pub(crate) waited: Millis,
    /// As asked; 0: without limit.
    pub(crate) timeout: Millis,
}

/// A grant that lives as long as a connection.
#[derive(Clone, Copy)]
pub(super) struct Session {
    pub(super) client: u64,
    pub(super) fence: Fence,
    pub(super) lease: Millis,
    pub(super) renew_at: Millis,
    /// The connection has closed.
    pub(super) over: bool,
}
