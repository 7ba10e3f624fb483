//! A waiter, its stages and its answers; and the client of a running command.

use std::num::NonZeroU32;

use crate::lock::{AcquireRequest, Deadline, Micros, Millis, ReentryError};
use crate::waiting::table::Confirm;
use crate::waiting::{Channel, RequestedLocks};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(Hash))]
pub enum Answer {
    /// `until` is the end of the lease that ends first.
    Granted {
        until: Deadline,
    },
    NoReentry(ReentryError),
    Deadlock,
    TimedOut,
    WrongType,
    /// The waiter's grant is over.
    Gone,
    /// The owner has extended its leases.
    Extended {
        until: Deadline,
    },
    /// One of the grants has ended since the owner extended its leases.
    NotHeld,
    /// Too few replicas have confirmed the grant in time, so it is taken back.
    GrantUnconfirmed,
    /// Too few replicas have confirmed the extension in time.
    ExtensionUnconfirmed,
}

/// The stages of a waiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(Hash))]
pub(super) enum Phase {
    Queued,
    /// The waiter is to be told when replicas have confirmed the answer.
    Unconfirmed(Answer),
    /// The waiter is to be told.
    Answered(Answer),
    Told(Answer),
    /// The waiter has gone away.
    Left,
}

#[derive(Debug)]
#[cfg_attr(test, derive(Clone, PartialEq, Eq, Hash))]
pub(super) struct Waiter<C> {
    pub(super) locks: RequestedLocks,
    pub ask: AcquireRequest<'static>,
    /// `None` until the server has blocked the client, and for a place.
    pub(super) client: Option<C>,
    /// How replicas have to confirm the answer (`SYNC`).
    pub(super) confirm: Option<Confirm>,
    /// The channel for the answer, if the waiter has a place, and is not blocked.
    pub(super) channel: Option<Channel>,
    pub(super) client_id: u64,
    pub(super) since: Micros,
    /// When its time to wait, or to claim, is up.
    pub(super) ends: Option<Millis>,
    pub(super) phase: Phase,
    /// Whether the module unblocked the client, and not an operator.
    pub(super) unblocked: bool,
}

impl<C> Waiter<C> {
    /// How many replicas have to confirm the answer now.
    pub(super) fn awaits(&self) -> Option<NonZeroU32> {
        let is_unconfirmed = matches!(self.phase, Phase::Unconfirmed(_));
        self.confirm.filter(|_| is_unconfirmed).map(|confirm| confirm.replicas)
    }
}

/// The client of a running command.
pub struct Caller {
    pub id: u64,
    pub may_block: bool,
    /// The most waiters of one lock.
    pub most_waiters: Option<usize>,
    /// The most locks that may depend on one connection.
    pub most_places: Option<usize>,
    /// How long a place's grant may stay unclaimed.
    pub claim: Millis,
}
