//! The waiters in all queues, by owner.

use std::hash::BuildHasher;

use super::index::Index;
use super::lock_id::{HASHES, LockRef};
use super::queue::RequestId;
use super::waiter::Waiter;
use crate::lock::Owner;

/// All waiters in queues, by a hash of their owners, because hashes are compared faster than names. Two owners may have the same hash, but
/// no client can know which owners these are.
#[derive(Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(Clone, Hash))]
pub(super) struct Owners {
    waits: Index<u64, RequestId>,
    /// The places (waiters that are not blocked), by a hash of the owner and the locks of the place.
    places: Index<u64, RequestId>,
    /// How many waiters wait for several locks at once.
    several: usize,
}

impl Owners {
    pub(super) const fn new() -> Self {
        Self { waits: Index::new(), places: Index::new(), several: 0 }
    }

    /// Notes that a waiter is in its queues (`queued`), or has left them.
    #[inline(always)]
    pub(super) fn set<C>(&mut self, request: RequestId, waiter: &Waiter<C>, queued: bool) {
        let (owner, locks) = (&waiter.ask.owner, &waiter.locks);
        let move_in = |index: &mut Index<u64, RequestId>, hash: u64| match queued {
            true => index.set(&request, None, Some(hash)),
            false => index.set(&request, Some(hash), None),
        };
        move_in(&mut self.waits, HASHES.hash_one(owner));
        if waiter.channel().is_some() {
            move_in(&mut self.places, place_hash(owner, locks.names(), locks.are_several()));
        }
        let several = usize::from(locks.are_several());
        self.several = if queued { self.several + several } else { self.several - several };
    }

    pub(super) fn len(&self) -> usize {
        self.waits.len()
    }

    /// Returns the waits of this owner, and of any other owner with the same hash, in order of arrival.
    pub(super) fn perhaps(&self, owner: &Owner<'_>) -> impl Iterator<Item = RequestId> {
        self.waits.of(HASHES.hash_one(owner))
    }

    /// Returns this owner's places for these locks, in whatever order the locks were named, and other places with the same hash. The newest
    /// place comes first.
    pub(super) fn perhaps_places<'a>(
        &self,
        owner: &Owner<'_>,
        locks: impl Iterator<Item = LockRef<'a>>,
        several: bool,
    ) -> impl Iterator<Item = RequestId> {
        self.places.of(place_hash(owner, locks, several)).rev()
    }

    pub(super) fn has_several(&self) -> bool {
        self.several > 0
    }
}

/// Returns the hash of a place. The hash does not depend on the order in which the locks are named.
fn place_hash<'a>(owner: &Owner<'_>, locks: impl Iterator<Item = LockRef<'a>>, several: bool) -> u64 {
    let locks = locks.fold(0_u64, |sum, at| sum.wrapping_add(HASHES.hash_one((at.db, at))));
    HASHES.hash_one((owner, locks, several))
}

#[cfg(test)]
impl Owners {
    pub(super) fn renumber_requests(&mut self, requests: &std::collections::BTreeMap<RequestId, RequestId>) {
        for index in [&mut self.waits, &mut self.places] {
            index.renumber(|hash, request| (hash, requests[&request]));
        }
    }
}
