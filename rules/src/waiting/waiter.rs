//! A waiter, its answers, and an index of all waiters that are in queues; and the client of a running command.

use std::collections::BTreeSet;
use std::hash::BuildHasher;
use std::num::{NonZero, NonZeroU32};

use super::lock_id::{HASHES, LockId, LockRef};
use super::message::Channel;
use super::queue::RequestId;
use super::replication::Confirm;
use crate::lock::{AcquireRequest, Deadline, Fence, Got, Micros, Millis, Owner, ReentryError};

/// A lock that a waiter waits for; once the waiter has been granted the lock, also the grant.
#[derive(Clone, Debug)]
#[cfg_attr(test, derive(PartialEq, Eq, Hash))]
pub struct RequestedLock {
    pub(crate) id: LockId,
    pub got: Option<Got>,
}

impl RequestedLock {
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
    /// `several`: whether the command names its locks in a list, even if the list has only one.
    pub(super) fn of(ids: impl Iterator<Item = LockId>, several: bool, stuck: usize) -> Self {
        let mut locks = ids.map(|id| RequestedLock { id, got: None });
        match if several { None } else { locks.next() } {
            Some(lock) => Self::One(lock),
            None => Self::Several { locks: locks.collect(), stuck },
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
    /// The waiter's grant has ended before the waiter was told, or this server does not serve the lock any more.
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

/// The stage that a waiter has reached (see `stages`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(Hash))]
pub(super) enum Stage {
    Queued,
    /// The waiter is to be told when replicas have confirmed the answer.
    Unconfirmed(Answer),
    /// The waiter is to be told.
    Answered(Answer),
    Told(Answer),
    /// The waiter has gone away.
    Departed,
}

#[derive(Debug)]
#[cfg_attr(test, derive(Clone, PartialEq, Eq, Hash))]
pub(super) struct Waiter<C> {
    pub(super) locks: RequestedLocks,
    pub ask: AcquireRequest<'static>,
    /// The server's handle; `None` until the server has blocked the client, and for a place.
    pub(super) client: Option<C>,
    /// How replicas have to confirm the answer (`SYNC`).
    pub(super) confirm: Option<Confirm>,
    /// The channel for the answer, if the waiter has a place, and is not blocked.
    pub(super) channel: Option<Box<Channel>>,
    /// The id of the connection on which the waiter asked.
    pub(super) connection: u64,
    pub(super) since: Micros,
    /// How long the waiter wants to wait, in ms; 0: without limit.
    pub(super) timeout: Millis,
    /// When the time to wait, to claim or to confirm is up.
    pub(super) time_up: Option<NonZero<Millis>>,
    pub(super) stage: Stage,
    /// Whether the module unblocked the client, and not an operator.
    pub(super) unblocked: bool,
}

impl<C> Waiter<C> {
    /// How many replicas have to confirm the answer now.
    pub(super) fn awaits(&self) -> Option<NonZeroU32> {
        let is_unconfirmed = matches!(self.stage, Stage::Unconfirmed(_));
        self.confirm.filter(|_| is_unconfirmed).map(|confirm| confirm.replicas)
    }
}

/// The part of a hash that is the owner's.
const OWNERS: u64 = !0 << 32;

/// The hash for places, in whatever order their locks were named.
fn hash_for<'a>(owner: &Owner<'_>, locks: impl Iterator<Item = LockRef<'a>>) -> u64 {
    let locks = locks.map(|at| HASHES.hash_one(at)).fold(0, u64::wrapping_add);
    HASHES.hash_one(owner) & OWNERS | locks >> 32
}

/// The waiters in queues.
#[derive(Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(Clone, Hash))]
pub(super) struct Queued {
    /// The waiters, by a hash of their owners, because names take longer to compare; places also by a hash of their locks.
    by_owner: BTreeSet<(u64, RequestId)>,
    /// How many wait for several locks.
    pub(super) several: usize,
    /// The last request before this server was last demoted, and how many waiters from before are still in queues.
    before: RequestId,
    earlier: usize,
}

impl Queued {
    pub(super) const fn new() -> Self {
        Self { by_owner: BTreeSet::new(), several: 0, before: RequestId::MIN, earlier: 0 }
    }

    /// The number of waiters, without those from before a demotion.
    pub(super) fn len(&self) -> usize {
        self.by_owner.len() - self.earlier
    }

    pub(super) fn demoted(&mut self, last: RequestId) {
        (self.before, self.earlier) = (last, self.by_owner.len());
    }

    pub(super) fn is_earlier(&self, request: RequestId) -> bool {
        request <= self.before
    }

    pub(super) fn add<C>(&mut self, request: RequestId, waiter: &Waiter<C>) {
        self.by_owner.insert(Self::row(request, waiter));
        self.several += usize::from(waiter.locks.are_several());
    }

    pub(super) fn remove<C>(&mut self, request: RequestId, waiter: &Waiter<C>) {
        self.by_owner.remove(&Self::row(request, waiter));
        self.earlier -= usize::from(self.is_earlier(request));
        self.several -= usize::from(waiter.locks.are_several());
    }

    #[cfg(any(test, debug_assertions))]
    pub(super) fn has_same(&self, other: &Self) -> bool {
        self.by_owner == other.by_owner && self.several == other.several
    }

    /// The waits of this owner, and of any other with the same hash.
    pub(super) fn perhaps_of(&self, owner: &Owner<'_>) -> impl Iterator<Item = RequestId> {
        let hash = HASHES.hash_one(owner) & OWNERS;
        let rows = (hash, RequestId::MIN)..=(hash | !OWNERS, RequestId::MAX);
        self.by_owner.range(rows).map(|(_, request)| *request)
    }

    /// The places of this owner for these locks, and of any others with the same hash.
    pub(super) fn perhaps_for<'a>(
        &self,
        owner: &Owner<'_>,
        locks: impl Iterator<Item = LockRef<'a>>,
    ) -> impl DoubleEndedIterator<Item = RequestId> {
        let hash = hash_for(owner, locks);
        self.by_owner.range((hash, RequestId::MIN)..=(hash, RequestId::MAX)).map(|(_, request)| *request)
    }

    fn row<C>(request: RequestId, waiter: &Waiter<C>) -> (u64, RequestId) {
        let locks = waiter.locks.names().filter(|_| waiter.channel.is_some());
        (hash_for(&waiter.ask.owner, locks), request)
    }
}

/// The client of a running command.
pub struct Caller {
    /// The id of the connection.
    pub connection: u64,
    pub may_block: bool,
    /// The most waiters of one lock.
    pub most_waiters: Option<usize>,
    /// The most locks that may depend on one connection.
    pub most_places: Option<usize>,
    /// How long a place's grant may stay unclaimed.
    pub claim: Millis,
}
