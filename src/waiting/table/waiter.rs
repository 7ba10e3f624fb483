//! A waiter, from its place in a queue to its answer; and a session.

use std::num::{NonZeroI64, NonZeroU32, NonZeroU64};
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
    /// The waiter has been granted its locks. `until`: the end of the lease that ends first.
    Granted {
        until: Deadline,
    },
    WrongType,
    NoReentry(ReentryError),
    /// The waiter would wait for an owner that waits for the waiter's owner.
    Deadlock,
    TimedOut,
    /// The lock is not this server's any more, or the waiter's grant is over.
    Gone,
    /// The owner's grants have been extended. `until`: the end of the lease that ends first.
    Extended {
        until: Deadline,
    },
    /// The owner does not hold the locks any more whose leases it extended.
    NotHeld,
    /// Too few replicas have confirmed the grant in time, and it has been taken back.
    GrantUnconfirmed,
    /// Too few replicas have confirmed the extension in time. The extension stays.
    ExtensionUnconfirmed,
}

/// A lock that a waiter waits for, and the waiter's grant of it.
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

/// All locks that a waiter waits for together. Most wait for one.
#[derive(Clone, Debug)]
#[cfg_attr(test, derive(PartialEq, Eq, Hash))]
pub(crate) enum RequestedLocks {
    One(RequestedLock),
    Several {
        locks: Box<[RequestedLock]>,
        /// The index of a lock that keeps the waiter waiting. While it does, the other locks need not be looked at for this waiter.
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

    /// The index of the lock that keeps the waiter waiting.
    pub(super) fn stuck(&self) -> usize {
        match self {
            Self::One(_) => 0,
            Self::Several { stuck, .. } => *stuck,
        }
    }

    pub(super) fn are_several(&self) -> bool {
        matches!(self, Self::Several { .. })
    }

    /// The names of all locks.
    pub(super) fn names(&self) -> impl Iterator<Item = LockRef<'_>> {
        self.all().iter().map(|lock| lock.id.to_ref())
    }

    /// The weight of all names together: see `LockRef::weight`.
    pub(super) fn weight(&self) -> usize {
        self.names().map(LockRef::weight).sum()
    }

    pub(super) fn at_mut(&mut self, at: LockRef<'_>) -> Option<&mut RequestedLock> {
        self.all_mut().iter_mut().find(|lock| lock.id.is(at))
    }
}

/// The answer to a waiter that is being told, and what is known of the waiter.
pub(crate) struct Told {
    pub(crate) locks: RequestedLocks,
    /// The grants that the waiter's connection keeps alive from now on.
    pub(crate) binds: Vec<(LockId, Fence)>,
    pub(crate) ask: AcquireRequest<'static>,
    pub(crate) client_id: u64,
    pub(crate) answer: Answer,
    /// How many replicas have confirmed the answer, if they had to.
    pub(crate) confirm: Option<Confirm>,
    /// The channel for the answer, if it is not the reply to the command.
    pub(crate) channel: Option<Channel>,
}

/// Something that replicas have confirmed.
pub(crate) enum Confirmed {
    /// The answer to a client, and its locks.
    Answer(RequestId, RequestedLocks),
    /// The renewal of a session.
    Renewal,
}

/// The channel for messages to a client, and which messages it wants.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(Hash))]
pub(crate) struct Channel {
    /// Bytes that only the host interprets.
    pub(crate) address: Arc<[u8]>,
    /// Whether the client, while it holds the lock, is also told that somebody waits.
    pub(crate) wanted: bool,
    /// Set if the client's work begins when the message arrives, without a claim first: the number of the request, which the message
    /// repeats.
    pub(crate) start: Option<NonZeroU64>,
}

/// How a waiter waits.
#[derive(Clone, Debug)]
#[cfg_attr(test, derive(PartialEq, Eq, Hash))]
pub(crate) enum WaitKind<C> {
    /// The client is blocked until its command is answered.
    Blocked(C),
    /// The client is not blocked, and gets a message on this channel. It has to claim its grant.
    Notified(Channel),
}

/// The stages of a waiter, from its place in a queue to its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(Hash))]
pub(super) enum Phase {
    /// The waiter is in its queues.
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
    /// Whether the waiter has been granted its locks. It may or may not have been told.
    pub(super) fn is_granted(self) -> bool {
        match self {
            Self::Unconfirmed(answer) | Self::Answered(answer) | Self::Told(answer) => {
                matches!(answer, Answer::Granted { .. })
            }
            Self::Queued | Self::Left => false,
        }
    }
}

/// A client that begins to wait.
pub(crate) struct Arrival<C> {
    /// The request. Its lease starts when it is granted.
    pub(crate) ask: AcquireRequest<'static>,
    pub(crate) way: WaitKind<C>,
    pub(crate) client_id: u64,
    pub(crate) since: Micros,
    /// How long the client waits, in ms; 0: without limit.
    pub(crate) timeout: Millis,
    /// How many replicas have to confirm a grant before the client is told.
    pub(crate) confirm: Option<Confirm>,
}

impl<C> Arrival<C> {
    /// The first millisecond in which the time is up. The millisecond of the arrival counts as partly over.
    pub(super) fn gives_up(&self) -> Option<Millis> {
        (self.timeout > 0).then(|| (self.since / 1000).saturating_add(self.timeout).saturating_add(1))
    }
}

/// What the indexes of waiters depend on.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct WaiterKeys {
    pub(super) ends: Option<Ends>,
    /// Whether the waiter is in its queues.
    pub(super) queued: bool,
    /// The connection of a place.
    pub(super) place: Option<u64>,
    /// The number of replicas that are to confirm the answer.
    pub(super) awaits: Option<NonZeroU32>,
}

/// A time in ms. It is not 0, which saves 8 bytes.
pub(super) type Ends = NonZeroI64;

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
    /// When the waiter times out. After its grant, when the time to claim or confirm the grant is over.
    ends: Option<Ends>,
    /// The waiter was answered because its answer was due. Otherwise an operator had it answered, by `CLIENT UNBLOCK`.
    pub(super) unblocked: bool,
}

impl<C> Waiter<C> {
    pub(super) fn new(locks: RequestedLocks, arrival: Arrival<C>) -> Self {
        let ends = arrival.gives_up().and_then(Ends::new);
        let Arrival { ask, way, client_id, since, timeout, confirm } = arrival;
        let (phase, unblocked) = (Phase::Queued, false);
        Self { locks, ask, phase, way, client_id, since, timeout, confirm, ends, unblocked }
    }

    #[inline(always)]
    pub(super) fn keys(&self) -> WaiterKeys {
        WaiterKeys {
            ends: self.ends,
            queued: matches!(self.phase, Phase::Queued),
            place: self.channel().map(|_| self.client_id),
            awaits: match self.phase {
                Phase::Unconfirmed(_) => self.confirm.map(|confirm| confirm.replicas),
                _ => None,
            },
        }
    }

    /// Sets when the waiter times out; after its grant, when the time to claim or confirm that is over.
    pub(super) fn end_by(&mut self, ends: Option<Millis>) {
        self.ends = ends.and_then(Ends::new);
    }

    /// Moves the waiter to its next phase, which has no end.
    pub(super) fn go_on(&mut self, next: Phase) {
        (self.phase, self.ends) = (next, None);
    }

    /// The channel for the waiter's answer, if it is not the reply to its command.
    pub(super) fn channel(&self) -> Option<&Channel> {
        match &self.way {
            WaitKind::Notified(channel) => Some(channel),
            WaitKind::Blocked(_) => None,
        }
    }

    /// The hold that the waiter gets with a grant.
    pub(super) fn hold(&self, request: RequestId) -> PendingHold {
        let (locks, to_claim) = (self.locks.all().len() as u32, self.channel().is_some());
        PendingHold { request, locks, own: true, binds: self.ask.session, to_claim }
    }

    /// How long the waiter has waited, in ms.
    pub(super) fn waited(&self, now: Micros) -> Millis {
        now.saturating_sub(self.since).max(0) / 1000
    }
}

/// A waiter, as it is shown.
pub(crate) struct WaiterInfo {
    pub(crate) owner: Owner<'static>,
    pub(crate) client_id: u64,
    pub(crate) waited: Millis,
    /// How long the waiter wants to wait, in ms; 0: without limit.
    pub(crate) timeout: Millis,
    /// Whether the waiter gets a message, and is not blocked.
    pub(crate) notified: bool,
    pub(crate) room: Room,
    /// The label, which says in words who waits; empty if there is none.
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

/// The session of a grant: a connection keeps the grant alive.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(test, derive(PartialEq, Eq, Hash))]
pub(crate) struct Session {
    pub(crate) client: u64,
    pub(crate) fence: Fence,
    pub(crate) lease: Millis,
    pub(crate) renew_at: Millis,
    /// Whether the connection has closed.
    pub(crate) over: bool,
}
