//! Who stands in queues, by owner.

use std::collections::BTreeSet;
use std::hash::BuildHasher;

use super::place::{At, HASHES};
use super::queue::Ticket;
use super::waiter::Stands;
use crate::lock::Owner;

/// All who stand in queues. By a hash of their owners, which compares faster than those. Two owners may share one; which do can't be
/// known outside.
#[derive(Debug, Default)]
#[cfg_attr(test, derive(Clone, PartialEq, Eq, Hash))]
pub(super) struct Owners {
    waits: BTreeSet<(u64, Ticket)>,
    /// The places among them, by a hash of the owner and of the locks that are waited for.
    places: BTreeSet<(u64, Ticket)>,
    /// How many of them wait for several locks.
    several: usize,
}

impl Owners {
    pub(super) const fn new() -> Self {
        Self { waits: BTreeSet::new(), places: BTreeSet::new(), several: 0 }
    }

    pub(super) fn join(&mut self, owner: &Owner<'_>, ticket: Ticket, several: bool) {
        self.waits.insert((HASHES.hash_one(owner), ticket));
        self.several += usize::from(several);
    }

    pub(super) fn leave(&mut self, owner: &Owner<'_>, ticket: Ticket, several: bool) {
        self.waits.remove(&(HASHES.hash_one(owner), ticket));
        self.several -= usize::from(several);
    }

    /// The waits of that owner, and of any other that has the same hash, first come first.
    pub(super) fn perhaps(&self, owner: &Owner<'_>) -> impl Iterator<Item = Ticket> {
        let hash = HASHES.hash_one(owner);
        self.waits.range((hash, Ticket::MIN)..=(hash, Ticket::MAX)).map(|(_, ticket)| *ticket)
    }

    pub(super) fn add_place(&mut self, owner: &Owner<'_>, stands: &Stands, ticket: Ticket) {
        self.places.insert((place_hash(owner, stands.names(), stands.are_several()), ticket));
    }

    pub(super) fn remove_place(&mut self, owner: &Owner<'_>, stands: &Stands, ticket: Ticket) {
        self.places.remove(&(place_hash(owner, stands.names(), stands.are_several()), ticket));
    }

    /// The places of that owner for these locks, in any order, and perhaps others: the last one first.
    pub(super) fn perhaps_places<'a>(
        &self,
        owner: &Owner<'_>,
        locks: impl Iterator<Item = At<'a>>,
        several: bool,
    ) -> impl Iterator<Item = Ticket> {
        let hash = place_hash(owner, locks, several);
        self.places.range((hash, Ticket::MIN)..=(hash, Ticket::MAX)).rev().map(|(_, ticket)| *ticket)
    }

    pub(super) fn has_several(&self) -> bool {
        self.several > 0
    }
}

/// The same in whatever order the locks are named.
fn place_hash<'a>(owner: &Owner<'_>, locks: impl Iterator<Item = At<'a>>, several: bool) -> u64 {
    let locks = locks.fold(0_u64, |sum, at| sum.wrapping_add(HASHES.hash_one((at.db, at))));
    HASHES.hash_one((owner, locks, several))
}

#[cfg(test)]
impl Owners {
    pub(super) fn places(&self) -> usize {
        self.places.len()
    }

    pub(super) fn len(&self) -> usize {
        self.waits.len()
    }

    pub(super) fn renumber_tickets(&mut self, tickets: &std::collections::BTreeMap<Ticket, Ticket>) {
        for index in [&mut self.waits, &mut self.places] {
            *index = index.iter().map(|(hash, ticket)| (*hash, tickets[ticket])).collect();
        }
    }
}
