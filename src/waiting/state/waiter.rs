//! One waiter, on its way from its place in a queue to its answer; and one session.

use std::sync::Arc;

use super::place::Place;
use crate::lock::{Ask, Deadline, Fence, Micros, Millis, Now, Owner, Room};

/// What a waiter is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(Hash))]
pub(crate) enum Answer {
    Granted {
        fence: Fence,
        holds: u32,
        until: Deadline,
    },
    WrongType,
    TooManyHolds,
    /// It would wait for an owner that waits for it.
    Deadlock,
    TimedOut,
    /// The lock is not this server's any more.
    Gone,
}

/// A waiter that is being told.
pub(crate) struct Told {
    pub(crate) place: Place,
    pub(crate) ask: Ask<'static>,
    pub(crate) client_id: u64,
    pub(crate) answer: Answer,
    /// Where, if not in the reply to its command.
    pub(crate) channel: Option<Channel>,
}

/// The name of a channel on which messages are published.
pub(crate) type Channel = Arc<[u8]>;

/// How a waiter waits.
#[derive(Clone, Debug)]
#[cfg_attr(test, derive(PartialEq, Eq, Hash))]
pub(crate) enum Way<C> {
    /// Blocked in its command until that is answered.
    Blocked(C),
    /// It has its connection free, and is told on that channel. A grant it has to claim.
    Notified(Channel),
}

/// Where a waiter is on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(Hash))]
pub(super) enum Phase {
    /// In its queue.
    Queued,
    /// Out of its queue; to be told.
    Answered(Answer),
    /// Told.
    Told(Answer),
    /// Out of its queue without an answer: sent away, or gone.
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

/// A client that comes to wait.
pub(crate) struct Arrival<C> {
    /// Its lease starts when it is granted.
    pub(crate) ask: Ask<'static>,
    pub(crate) way: Way<C>,
    pub(crate) client_id: u64,
    pub(crate) since: Micros,
    /// 0: without limit.
    pub(crate) timeout: Millis,
}

impl<C> Arrival<C> {
    /// The first millisecond in which it has waited long enough; the one it came in has partly gone by.
    pub(super) fn gives_up(&self) -> Option<Millis> {
        (self.timeout > 0).then(|| (self.since / 1000).saturating_add(self.timeout).saturating_add(1))
    }
}

#[cfg_attr(test, derive(Clone, Debug, PartialEq, Eq, Hash))]
pub(super) struct Waiter<C> {
    pub(super) place: Place,
    pub(super) ask: Ask<'static>,
    pub(super) phase: Phase,
    pub(super) way: Way<C>,
    /// Its connection: of one that is notified, the one on which it asked last.
    pub(super) client_id: u64,
    pub(super) since: Micros,
    pub(super) timeout: Millis,
    /// When it gives up; of a grant, when the time to claim it is over.
    pub(super) ends: Option<Millis>,
    /// It was answered since its answer was due; else an operator had it answered, by `CLIENT UNBLOCK`.
    pub(super) unblocked: bool,
}

impl<C> Waiter<C> {
    pub(super) fn new(place: Place, arrival: Arrival<C>) -> Self {
        let ends = arrival.gives_up();
        let Arrival { ask, way, client_id, since, timeout } = arrival;
        Self { place, ask, phase: Phase::Queued, way, client_id, since, timeout, ends, unblocked: false }
    }

    /// Where it is told, if not in the reply to its command.
    pub(super) fn channel(&self) -> Option<&Channel> {
        match &self.way {
            Way::Notified(channel) => Some(channel),
            Way::Blocked(_) => None,
        }
    }
}

/// One waiter, for `LOCK.INFO ... FULL`.
pub(crate) struct WaiterInfo {
    pub(crate) owner: Owner<'static>,
    pub(crate) client_id: u64,
    pub(crate) waited: Millis,
    /// As asked; 0: without limit.
    pub(crate) timeout: Millis,
    /// It is told by a message, and not blocked meanwhile.
    pub(crate) notified: bool,
    pub(crate) room: Room,
}

impl WaiterInfo {
    pub(super) fn new<C>(waiter: &Waiter<C>, now: Now) -> Self {
        Self {
            owner: waiter.ask.owner.clone(),
            client_id: waiter.client_id,
            waited: now.micros.saturating_sub(waiter.since).max(0) / 1000,
            timeout: waiter.timeout,
            notified: waiter.channel().is_some(),
            room: waiter.ask.room,
        }
    }
}

/// A grant that lives as long as a connection.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(test, derive(PartialEq, Eq, Hash))]
pub(crate) struct Session {
    pub(crate) client: u64,
    pub(crate) fence: Fence,
    pub(crate) lease: Millis,
    pub(crate) renew_at: Millis,
    /// The connection has closed.
    pub(crate) over: bool,
}
