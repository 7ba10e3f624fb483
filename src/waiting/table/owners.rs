//! The waiters in all queues, by owner.

use std::collections::BTreeSet;
use std::hash::BuildHasher;

use super::lock_id::{HASHES, LockRef};
use super::queue::RequestId;
use super::waiter::RequestedLocks;
use crate::lock::Owner;

/// All waiters in queues, by a hash of their owners, since hashes are compared faster than names. Two owners may have the same hash, but no
/// client can know which.
#[derive(Debug, Default)]
#[cfg_attr(test, derive(Clone, PartialEq, Eq, Hash))]
pub(super) struct Owners {
    waits: BTreeSet<(u64, RequestId)>,
    /// The places among the waiters, by a hash of the owner and its locks.
    places: BTreeSet<(u64, RequestId)>,
    /// The number of waiters for several locks.
    several: usize,
}

impl Owners {
    pub(super) const fn new() -> Self {
        Self { waits: BTreeSet::new(), places: BTreeSet::new(), several: 0 }
    }

    pub(super) fn join(
        &mut self,
        owner: &Owner<'_>,
        request: RequestId,
        locks: &RequestedLocks,
        place: bool,
    ) {
        self.waits.insert((HASHES.hash_one(owner), request));
        self.several += usize::from(locks.are_several());
        if place {
            self.places.insert((place_hash(owner, locks.names(), locks.are_several()), request));
        }
    }

    pub(super) fn leave(
        &mut self,
        owner: &Owner<'_>,
        request: RequestId,
        locks: &RequestedLocks,
        place: bool,
    ) {
        self.waits.remove(&(HASHES.hash_one(owner), request));
        self.several -= usize::from(locks.are_several());
        if place {
            self.places.remove(&(place_hash(owner, locks.names(), locks.are_several()), request));
        }
    }

    /// The number of waiters.
    pub(super) fn len(&self) -> usize {
        self.waits.len()
    }

    /// The waits of this owner, and of any other owner with the same hash, in order of arrival.
    pub(super) fn perhaps(&self, owner: &Owner<'_>) -> impl Iterator<Item = RequestId> {
        let hash = HASHES.hash_one(owner);
        self.waits.range((hash, RequestId::MIN)..=(hash, RequestId::MAX)).map(|(_, request)| *request)
    }

    /// This owner's places for these locks in any order, and other places with the same hash, the latest first.
    pub(super) fn perhaps_places<'a>(
        &self,
        owner: &Owner<'_>,
        locks: impl Iterator<Item = LockRef<'a>>,
        several: bool,
    ) -> impl Iterator<Item = RequestId> {
        let hash = place_hash(owner, locks, several);
        self.places.range((hash, RequestId::MIN)..=(hash, RequestId::MAX)).rev().map(|(_, request)| *request)
    }

    pub(super) fn has_several(&self) -> bool {
        self.several > 0
    }
}

/// The hash of a place. It does not depend on the order in which the locks are named.
fn place_hash<'a>(owner: &Owner<'_>, locks: impl Iterator<Item = LockRef<'a>>, several: bool) -> u64 {
    let locks = locks.fold(0_u64, |sum, at| sum.wrapping_add(HASHES.hash_one((at.db, at))));
    HASHES.hash_one((owner, locks, several))
}

#[cfg(any(test, debug_assertions))]
impl Owners {
    /// The number of waiters, of places among them, and of waiters for several locks.
    pub(super) fn counts(&self) -> (usize, usize, usize) {
        (self.waits.len(), self.places.len(), self.several)
    }
}

#[cfg(test)]
impl Owners {
    pub(super) fn renumber_requests(&mut self, requests: &std::collections::BTreeMap<RequestId, RequestId>) {
        for index in [&mut self.waits, &mut self.places] {
            *index = index.iter().map(|(hash, request)| (*hash, requests[request])).collect();
        }
    }
}
