//! A waiter, from its arrival in a queue to its answer. Also the session of a grant.

use std::num::{NonZeroI64, NonZeroU32, NonZeroU64};
use std::sync::Arc;

use super::lock_id::{LockId, LockRef};
use super::pending::PendingHold;
use super::queue::RequestId;
use super::replication::Confirm;
use crate::lock::{AcquireRequest, Deadline, Fence, Got, Micros, Millis, Now, Owner, ReentryError, Room};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(Hash))]
pub enum Answer {
    /// The waiter has been granted its locks. `until` is the end of the lease that ends first.
    Granted {
        until: Deadline,
    },
    WrongType,
    NoReentry(ReentryError),
    /// The waiter would wait for an owner that waits for the waiter's owner.
    Deadlock,
    TimedOut,
    /// The lock does not belong to this server any more, or the waiter's grant is over.
    Gone,
    /// The owner has extended its grants. `until` is the end of the lease that ends first.
    Extended {
        until: Deadline,
    },
    /// The owner has extended its grants, but one of them ended before the client could be told.
    NotHeld,
    /// Too few replicas have confirmed the grant in time, so the module takes back the hold that the request added.
    GrantUnconfirmed,
    /// Too few replicas have confirmed the extension in time. The extension stays.
    ExtensionUnconfirmed,
}

/// A lock that a waiter waits for; once the waiter has been granted the lock, also the grant.
#[derive(Clone, Debug)]
#[cfg_attr(test, derive(PartialEq, Eq, Hash))]
pub struct RequestedLock {
    pub(crate) id: LockId,
    pub got: Option<Got>,
}

impl RequestedLock {
    fn new(id: LockId) -> Self {
        Self { id, got: None }
    }

    pub(crate) fn fence(&self) -> Option<Fence> {
        self.got.map(|got| got.fence)
    }
}

/// All locks that a waiter waits for together. Most waiters wait for one lock.
#[derive(Clone, Debug)]
#[cfg_attr(test, derive(PartialEq, Eq, Hash))]
pub enum RequestedLocks {
    One(RequestedLock),
    Several {
        locks: Box<[RequestedLock]>,
        /// The index of a lock that the waiter can't have yet. Until it can, the module does not check the waiter's other locks.
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

    #[cfg(test)]
    pub(crate) fn of(ids: Vec<LockId>, several: bool, stuck: usize) -> Self {
        match <[LockId; 1]>::try_from(ids) {
            Ok([id]) if !several => Self::one(id),
            Ok(ids) => Self::several(ids.into_iter(), stuck),
            Err(ids) => Self::several(ids.into_iter(), stuck),
        }
    }

    pub fn all(&self) -> &[RequestedLock] {
        match self {
            Self::One(lock) => std::slice::from_ref(lock),
            Self::Several { locks, .. } => locks,
        }
    }

    pub(crate) fn all_mut(&mut self) -> &mut [RequestedLock] {
        match self {
            Self::One(lock) => std::slice::from_mut(lock),
            Self::Several { locks, .. } => locks,
        }
    }

    /// Returns the index of the lock that keeps the waiter waiting.
    pub(crate) fn stuck(&self) -> usize {
        match self {
            Self::One(_) => 0,
            Self::Several { stuck, .. } => *stuck,
        }
    }

    pub(crate) fn are_several(&self) -> bool {
        matches!(self, Self::Several { .. })
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = LockRef<'_>> {
        self.all().iter().map(|lock| lock.id.to_ref())
    }

    pub(crate) fn weight(&self) -> usize {
        self.names().map(LockRef::weight).sum()
    }

    pub(crate) fn at_mut(&mut self, at: LockRef<'_>) -> Option<&mut RequestedLock> {
        self.all_mut().iter_mut().find(|lock| lock.id.is(at))
    }
}

/// The answer to a waiter that is being told, and what the module knows of this waiter.
pub struct Told {
    pub locks: RequestedLocks,
    /// The grants that the waiter's connection has to keep alive from now on.
    pub(crate) binds: Vec<(LockId, Fence)>,
    pub ask: AcquireRequest<'static>,
    pub(crate) client_id: u64,
    pub answer: Answer,
    /// How many replicas had to confirm the answer, and in what time; `None` without `SYNC`.
    pub confirm: Option<Confirm>,
    /// The channel for the answer, if the answer is a message, and not a reply to the command.
    pub(crate) channel: Option<Channel>,
}

/// The channel for messages to a client, and which messages the client wants.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(Hash))]
pub struct Channel {
    /// Bytes that only the host (the server behind `access::Host`) interprets.
    pub address: Arc<[u8]>,
    /// Whether the client, while it holds the lock, is also told that somebody waits.
    pub wanted: bool,
    /// The number that the client gave its request (`START`), and that the message repeats. If there is one, the client's work begins when
    /// the message arrives, and needs no claim first.
    pub start: Option<NonZeroU64>,
}

#[derive(Clone, Debug)]
#[cfg_attr(test, derive(PartialEq, Eq, Hash))]
pub(crate) enum WaitKind<C> {
    /// The client is blocked until its command is answered.
    Blocked(C),
    /// The client has a place: it is not blocked, gets a message on this channel, and then has to claim its grant.
    Notified(Channel),
}

/// The stages of a waiter, from its arrival in a queue to its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(Hash))]
pub(super) enum Phase {
    /// The waiter is in its queues.
    Queued,
    /// The waiter has left its queues, and will be told this answer once replicas have confirmed the answer.
    Unconfirmed(Answer),
    /// The waiter has left its queues, and will be told this answer.
    Answered(Answer),
    /// The waiter has been told this answer.
    Told(Answer),
    /// The waiter has left its queues without an answer, because it was sent away or its client is gone.
    Left,
}

impl Phase {
    /// Whether the waiter has been granted its locks, even if it has not been told.
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
    /// The request. Its lease starts when the request is granted.
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
    /// Returns the first millisecond in which the client's time is up. Adds one, because the millisecond of the arrival was already partly
    /// over.
    pub(super) fn gives_up(&self) -> Option<Millis> {
        (self.timeout > 0).then(|| (self.since / 1000).saturating_add(self.timeout).saturating_add(1))
    }
}

/// The keys of a waiter in the indexes of waiters (see `index`).
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct WaiterKeys {
    pub(super) ends: Option<Ends>,
    /// Whether the waiter is in its queues.
    pub(super) queued: bool,
    /// The waiter's connection, if the waiter has a place.
    pub(super) place: Option<u64>,
    /// How many replicas have to confirm the answer; `None` if the answer waits for no replicas.
    pub(super) awaits: Option<NonZeroU32>,
}

/// A time in ms since 1970. The time is never 0, so an `Option` of it takes 8 bytes less.
pub(super) type Ends = NonZeroI64;

#[cfg_attr(test, derive(Clone, Debug, PartialEq, Eq, Hash))]
pub(super) struct Waiter<C> {
    pub(super) locks: RequestedLocks,
    pub(super) ask: AcquireRequest<'static>,
    pub(super) phase: Phase,
    pub(super) way: WaitKind<C>,
    /// The id of the waiter's connection. For a place, this is the connection on which the owner last asked.
    pub(super) client_id: u64,
    pub(super) since: Micros,
    pub(super) timeout: Millis,
    pub(super) confirm: Option<Confirm>,
    /// When the waiter times out. After the waiter's grant, this is when the time to claim or confirm the grant is over.
    ends: Option<Ends>,
    /// Whether the waiter got its answer because the answer was due. If not, an operator made the server ask for it (`CLIENT UNBLOCK`).
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

    pub(super) fn end_by(&mut self, ends: Option<Millis>) {
        self.ends = ends.and_then(Ends::new);
    }

    /// Moves the waiter to its next phase, without a time at which this phase ends.
    pub(super) fn go_on(&mut self, next: Phase) {
        (self.phase, self.ends) = (next, None);
    }

    /// Returns the channel for the waiter's answer, if the answer is a message.
    pub(super) fn channel(&self) -> Option<&Channel> {
        match &self.way {
            WaitKind::Notified(channel) => Some(channel),
            WaitKind::Blocked(_) => None,
        }
    }

    pub(super) fn hold(&self, request: RequestId) -> PendingHold {
        let (locks, to_claim) = (self.locks.all().len() as u32, self.channel().is_some());
        PendingHold { request, locks, own: true, binds: self.ask.session, to_claim }
    }

    pub(super) fn waited(&self, now: Micros) -> Millis {
        now.saturating_sub(self.since).max(0) / 1000
    }
}

/// What operators are shown of a waiter.
pub struct WaiterInfo {
    pub owner: Owner<'static>,
    pub client_id: u64,
    pub waited: Millis,
    /// How long the waiter wants to wait, in ms; 0: without limit.
    pub timeout: Millis,
    /// The address for the waiter's answer, if the answer is a message; `None` if the waiter is blocked.
    pub address: Option<Arc<[u8]>>,
    pub room: Room,
    /// The label, which says in words who waits; empty if there is none.
    pub label: Box<[u8]>,
}

impl WaiterInfo {
    pub(super) fn new<C>(waiter: &Waiter<C>, now: Now) -> Self {
        Self {
            owner: waiter.ask.owner.clone(),
            client_id: waiter.client_id,
            waited: waiter.waited(now.micros),
            timeout: waiter.timeout,
            address: waiter.channel().map(|channel| channel.address.clone()),
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
