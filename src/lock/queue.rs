//! The waiters of one lock in order of arrival.

use std::collections::{BTreeSet, btree_set};

use super::Owner;

/// A waiter's place in the order of arrival, over all locks; never used twice while the server lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Ticket(pub(crate) u64);

/// The waiters of one lock. Whatever is asked of it costs at most the logarithm of their number.
#[derive(Debug, Default)]
#[cfg_attr(test, derive(Clone, PartialEq, Eq, Hash))]
pub(crate) struct Queue {
    /// First come first served: tickets rise with the time of arrival.
    arrivals: BTreeSet<Ticket>,
    /// The same waiters by owner: a new holder's own waiters re-enter at once, wherever they stand.
    owners: BTreeSet<(Owner<'static>, Ticket)>,
}

impl Queue {
    pub(crate) fn len(&self) -> usize {
        self.arrivals.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.arrivals.is_empty()
    }

    pub(crate) fn join(&mut self, ticket: Ticket, owner: Owner<'static>) {
        self.arrivals.insert(ticket);
        self.owners.insert((owner, ticket));
    }

    /// Takes a waiter out, wherever it stands; whether it stood there at all.
    pub(crate) fn leave(&mut self, ticket: Ticket, owner: &Owner<'static>) -> bool {
        self.owners.remove(&(owner.clone(), ticket));
        self.arrivals.remove(&ticket)
    }

    /// Who is next.
    pub(crate) fn head(&self) -> Option<Ticket> {
        self.arrivals.first().copied()
    }

    /// The first waiter with that owner.
    pub(crate) fn first_of(&self, owner: &Owner<'static>) -> Option<Ticket> {
        let (first, ticket) = self.owners.range((owner.clone(), Ticket(0))..).next()?;
        (first == owner).then_some(*ticket)
    }

    /// All waiters, first come first.
    pub(crate) fn iter(&self) -> btree_set::Iter<'_, Ticket> {
        self.arrivals.iter()
    }
}
