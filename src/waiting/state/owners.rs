//! Who stands in queues, by owner.

use std::collections::BTreeSet;
use std::hash::BuildHasher;
use std::sync::LazyLock;

use foldhash::fast::RandomState;

use super::queue::Ticket;
use crate::lock::Owner;

/// All who stand in queues. By a hash of their owners, which compares faster than those. Two owners may share one; which do can't be
/// known outside.
#[derive(Debug, Default)]
#[cfg_attr(test, derive(Clone, PartialEq, Eq, Hash))]
pub(super) struct Owners {
    waits: BTreeSet<(u64, Ticket)>,
    /// How many of them wait for several locks.
    several: usize,
}

static HASHES: LazyLock<RandomState> = LazyLock::new(RandomState::default);

impl Owners {
    pub(super) const fn new() -> Self {
        Self { waits: BTreeSet::new(), several: 0 }
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

    pub(super) fn has_several(&self) -> bool {
        self.several > 0
    }
}

#[cfg(test)]
impl Owners {
    pub(super) fn len(&self) -> usize {
        self.waits.len()
    }

    pub(super) fn renumber_tickets(&mut self, tickets: &std::collections::BTreeMap<Ticket, Ticket>) {
        self.waits = self.waits.iter().map(|(hash, ticket)| (*hash, tickets[ticket])).collect();
    }
}
