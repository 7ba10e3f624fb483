//! One waiter, on its way from its place in a queue to its answer; and one session.

use std::num::{NonZeroI64, NonZeroU64};
use std::sync::Arc;

use super::lock_id::{LockId, LockRef};
use super::pending::PendingHold;
use super::queue::RequestId;
use super::replication::Confirm;
use crate::lock::{AcquireRequest, Deadline, Fence, Got, Micros, Millis, Now, Owner, ReentryError, Room};

/// The answer to a waiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(Hash))]
pub(crate) enum Answer {
    /// The waiter has what it waits for. `until`: the end of the lease that ends first.
    Granted {
        until: Deadline,
    },
    WrongType,
    NoReentry(ReentryError),
    /// The waiter would wait for an owner that waits for the waiter's owner.
    Deadlock,
    TimedOut,
    /// The lock is not this server's any more, or what it had been granted is over.
    Gone,
    /// The owner's grants are extended. `until`: the end of the lease that ends first.
    Extended {
        until: Deadline,
    },
    /// The owner does not hold any more what it extended.
    NotHeld,
    /// Too few replicas have confirmed the grant in time, and it has been taken back.
    GrantUnconfirmed,
    /// Too few replicas have confirmed an extension in time. The extension stays.
    ExtensionUnconfirmed,
}

/// A lock that a waiter waits for, and what it has been granted of it.
#[derive(Clone, Debug)]
#[cfg_attr(test, derive(PartialEq, Eq, Hash))]
pub(crate) struct RequestedLock {
    pub(crate) id: LockId,
    pub(crate) got: Option<Got>,
}

impl RequestedLock {
    fn new(id: LockId) -> Self {
        Self { id, got: None }
    }

    pub(crate) fn fence(&self) -> Option<Fence> {
        self.got.map(|got| got.fence)
    }
}

/// All locks that a waiter waits for at once. Most wait for one.
#[derive(Clone, Debug)]
#[cfg_attr(test, derive(PartialEq, Eq, Hash))]
pub(crate) enum RequestedLocks {
    One(RequestedLock),
    Several {
        locks: Box<[RequestedLock]>,
        /// The number of a lock that keeps the waiter waiting. While it does, the other locks need not be looked at for this waiter.
        stuck: usize,
    },
}

impl RequestedLocks {
    pub(super) fn one(id: LockId) -> Self {
        Self::One(RequestedLock::new(id))
    }

    pub(super) fn several(ids: impl Iterator<Item = LockId>, stuck: usize) -> Self {
        Self::Several { locks: ids.map(RequestedLock::new).collect(), stuck }
    }

    pub(crate) fn all(&self) -> &[RequestedLock] {
        match self {
            Self::One(lock) => std::slice::from_ref(lock),
            Self::Several { locks, .. } => locks,
        }
    }

    pub(super) fn all_mut(&mut self) -> &mut [RequestedLock] {
        match self {
            Self::One(lock) => std::slice::from_mut(lock),
            Self::Several { locks, .. } => locks,
        }
    }

    /// The number of the lock that keeps the waiter waiting.
    pub(super) fn stuck(&self) -> usize {
        match self {
            Self::One(_) => 0,
            Self::Several { stuck, .. } => *stuck,
        }
    }

    pub(super) fn are_several(&self) -> bool {
        matches!(self, Self::Several { .. })
    }

    /// The names of all.
    pub(super) fn names(&self) -> impl Iterator<Item = LockRef<'_>> {
        self.all().iter().map(|lock| lock.id.to_ref())
    }

    /// How much of the server's memory they take: see `LockRef::weight`.
    pub(super) fn weight(&self) -> usize {
        self.names().map(LockRef::weight).sum()
    }

    pub(super) fn at_mut(&mut self, at: LockRef<'_>) -> Option<&mut RequestedLock> {
        self.all_mut().iter_mut().find(|lock| lock.id.is(at))
    }
}

/// A waiter that is being told.
pub(crate) struct Told {
    pub(crate) locks: RequestedLocks,
    /// The grants that its connection keeps alive from now on.
    pub(crate) binds: Vec<(LockId, Fence)>,
    pub(crate) ask: AcquireRequest<'static>,
    pub(crate) client_id: u64,
    pub(crate) answer: Answer,
    /// How many replicas have confirmed it.
    pub(crate) confirm: Option<Confirm>,
    /// The channel on which it is told, if not in the reply to its command.
    pub(crate) channel: Option<Channel>,
}

/// Something that replicas have confirmed.
pub(crate) enum Confirmed {
    /// The answer of a client that waits for one lock or for several.
    Answer(RequestId, RequestedLocks),
    /// A session's renewal.
    Renewal,
}

/// The channel on which a client is told by messages, and which messages it wants.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(Hash))]
pub(crate) struct Channel {
    /// Bytes that only the host reads.
    pub(crate) address: Arc<[u8]>,
    /// While the client holds the lock, it is also told that somebody waits.
    pub(crate) wanted: bool,
    /// The number of the request, if its work begins at the message: the client need not claim its grant before, and the message has this
    /// number.
    pub(crate) start: Option<NonZeroU64>,
}

/// How a waiter waits.
#[derive(Clone, Debug)]
#[cfg_attr(test, derive(PartialEq, Eq, Hash))]
pub(crate) enum WaitKind<C> {
    /// Blocked in its command until that is answered.
    Blocked(C),
    /// The client's connection is free, and the client is told on this channel. It has to claim its grant.
    Notified(Channel),
}

/// The stages of a waiter, from its place in a queue to its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(Hash))]
pub(super) enum Phase {
    /// The waiter stands in its queues.
    Queued,
    /// The waiter has left its queues, and is to be told this answer once replicas have confirmed it.
    Unconfirmed(Answer),
    /// The waiter has left its queues, and is to be told this answer.
    Answered(Answer),
    /// The waiter has been told this answer.
    Told(Answer),
    /// The waiter has left its queues without an answer: it was sent away, or is gone.
    Left,
}

impl Phase {
    /// Whether a waiter has been given what it waited for, told or not.
    pub(super) fn is_granted(self) -> bool {
        match self {
            Self::Unconfirmed(answer) | Self::Answered(answer) | Self::Told(answer) => {
                matches!(answer, Answer::Granted { .. })
            }
            Self::Queued | Self::Left => false,
        }
    }
}

/// A client that comes to wait.
pub(crate) struct Arrival<C> {
    /// Its lease starts when it is granted.
    pub(crate) ask: AcquireRequest<'static>,
    pub(crate) way: WaitKind<C>,
    pub(crate) client_id: u64,
    pub(crate) since: Micros,
    /// 0: without limit.
    pub(crate) timeout: Millis,
    /// How many replicas have to confirm a grant before it is told.
    pub(crate) confirm: Option<Confirm>,
}

impl<C> Arrival<C> {
    /// The first millisecond in which it has waited long enough; the one it came in has partly gone by.
    pub(super) fn gives_up(&self) -> Option<Millis> {
        (self.timeout > 0).then(|| (self.since / 1000).saturating_add(self.timeout).saturating_add(1))
    }
}

#[cfg_attr(test, derive(Clone, Debug, PartialEq, Eq, Hash))]
pub(super) struct Waiter<C> {
    pub(super) locks: RequestedLocks,
    pub(super) ask: AcquireRequest<'static>,
    pub(super) phase: Phase,
    pub(super) way: WaitKind<C>,
    /// The waiter's connection. For a place, it is the connection on which its owner asked last.
    pub(super) client_id: u64,
    pub(super) since: Micros,
    pub(super) timeout: Millis,
    pub(super) confirm: Option<Confirm>,
    /// When it gives up; of a grant, when the time to claim it is over. Never 0, which saves each waiter 8 bytes.
    ends: Option<NonZeroI64>,
    /// The waiter was answered because its answer was due. Else an operator had it answered, by `CLIENT UNBLOCK`.
    pub(super) unblocked: bool,
}

impl<C> Waiter<C> {
    pub(super) fn new(locks: RequestedLocks, arrival: Arrival<C>) -> Self {
        let ends = arrival.gives_up().and_then(NonZeroI64::new);
        let Arrival { ask, way, client_id, since, timeout, confirm } = arrival;
        let (phase, unblocked) = (Phase::Queued, false);
        Self { locks, ask, phase, way, client_id, since, timeout, confirm, ends, unblocked }
    }

    /// When it gives up, or when the time to claim its grant is over.
    pub(super) fn ends(&self) -> Option<Millis> {
        self.ends.map(NonZeroI64::get)
    }

    /// Sets when the waiter gives up. Returns when it was to give up before.
    pub(super) fn set_ends(&mut self, ends: Option<Millis>) -> Option<Millis> {
        let earlier = std::mem::replace(&mut self.ends, ends.and_then(NonZeroI64::new));
        earlier.map(NonZeroI64::get)
    }

    /// The channel on which the waiter is told, if not in the reply to its command.
    pub(super) fn channel(&self) -> Option<&Channel> {
        match &self.way {
            WaitKind::Notified(channel) => Some(channel),
            WaitKind::Blocked(_) => None,
        }
    }

    /// The hold that it is given with a grant.
    pub(super) fn hold(&self, request: RequestId) -> PendingHold {
        let (locks, to_claim) = (self.locks.all().len() as u32, self.channel().is_some());
        PendingHold { request, locks, own: true, binds: self.ask.session, to_claim }
    }

    /// How long it has waited, in ms.
    pub(super) fn waited(&self, now: Micros) -> Millis {
        now.saturating_sub(self.since).max(0) / 1000
    }
}

/// One waiter, as it is shown.
pub(crate) struct WaiterInfo {
    pub(crate) owner: Owner<'static>,
    pub(crate) client_id: u64,
    pub(crate) waited: Millis,
    /// How long the waiter wants to wait, in ms; 0: without limit.
    pub(crate) timeout: Millis,
    /// The waiter is told by a message, and not blocked meanwhile.
    pub(crate) notified: bool,
    pub(crate) room: Room,
    /// The label: it says in words who waits. It is empty where the waiter has none.
    pub(crate) label: Box<[u8]>,
}

impl WaiterInfo {
    pub(super) fn new<C>(waiter: &Waiter<C>, now: Now) -> Self {
        Self {
            owner: waiter.ask.owner.clone(),
            client_id: waiter.client_id,
            waited: waiter.waited(now.micros),
            timeout: waiter.timeout,
            notified: waiter.channel().is_some(),
            room: waiter.ask.room,
            label: waiter.ask.label().unwrap_or_default().into(),
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
