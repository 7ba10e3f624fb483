//! The queue of one lock: its waiters in order of arrival.

use std::collections::BTreeSet;
use std::num::NonZeroU64;
use std::ops::Bound;

use crate::lock::Owner;

/// The number of a request, which rises with the time of arrival over all locks. No number is used twice while the server lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub NonZeroU64);

impl RequestId {
    pub(crate) const MIN: Self = Self(NonZeroU64::MIN);
    pub(crate) const MAX: Self = Self(NonZeroU64::MAX);
}

/// The waiters of one lock. Each method but the iterators takes logarithmic time at most.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone, PartialEq, Eq, Hash))]
pub(crate) enum Queue {
    /// A short queue, in order of arrival. Most queues are short, and a list takes a fraction of the memory of two trees.
    Few(Vec<(RequestId, Owner<'static>)>),
    Many {
        /// The waiters by number, which is the order of arrival.
        arrivals: BTreeSet<RequestId>,
        /// All waiters of this queue by owner, because a new holder's own waiters re-enter at once, wherever they are in the queue.
        owners: BTreeSet<(Owner<'static>, RequestId)>,
    },
}

/// The most waiters of a short queue.
const FEW: usize = 8;

impl Queue {
    pub(crate) const fn new() -> Self {
        Self::Few(Vec::new())
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Few(waiters) => waiters.len(),
            Self::Many { arrivals, .. } => arrivals.len(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds a waiter behind all others. Its number must be greater than theirs.
    pub(crate) fn join(&mut self, request: RequestId, owner: Owner<'static>) {
        match self {
            Self::Few(waiters) if waiters.len() < FEW => {
                // `push` would make room for four waiters, but there is usually only one.
                waiters.reserve_exact(1);
                waiters.push((request, owner));
            }
            Self::Few(waiters) => {
                let arrivals = waiters.iter().map(|(request, _)| *request).chain([request]).collect();
                let owners = std::mem::take(waiters).into_iter().map(|(request, owner)| (owner, request));
                let owners = owners.chain([(owner, request)]).collect();
                *self = Self::Many { arrivals, owners };
            }
            Self::Many { arrivals, owners } => {
                arrivals.insert(request);
                owners.insert((owner, request));
            }
        }
    }

    /// Takes a waiter out, wherever it is in the queue.
    pub(crate) fn leave(&mut self, request: RequestId, owner: &Owner<'static>) {
        match self {
            Self::Few(waiters) => {
                let place = waiters.iter().position(|(waits, _)| *waits == request);
                place.map(|place| waiters.remove(place));
            }
            Self::Many { arrivals, owners } => {
                owners.remove(&(owner.clone(), request));
                arrivals.remove(&request);
            }
        }
    }

    /// Returns the waiter that came first.
    pub(crate) fn head(&self) -> Option<RequestId> {
        match self {
            Self::Few(waiters) => waiters.first().map(|(request, _)| *request),
            Self::Many { arrivals, .. } => arrivals.first().copied(),
        }
    }

    /// Whether some of the waiters may be this owner's. Takes less time than to look for them.
    pub(crate) fn may_have(&self, owner: &Owner<'_>) -> bool {
        match self {
            Self::Few(waiters) => waiters.iter().any(|(_, waits)| waits == owner),
            Self::Many { .. } => true,
        }
    }

    /// Returns the first waiter of this owner that came after the request `seen`.
    pub(crate) fn next_of(&self, owner: &Owner<'static>, seen: Option<RequestId>) -> Option<RequestId> {
        match (self, seen) {
            (Self::Many { owners, .. }, Some(seen)) => {
                let last = Bound::Included((owner.clone(), RequestId::MAX));
                let after = owners.range((Bound::Excluded((owner.clone(), seen)), last)).next();
                after.map(|(_, request)| *request)
            }
            _ => self.all_of(owner).find(|request| Some(*request) > seen),
        }
    }

    /// Returns the waiters of this owner, in order of arrival.
    pub(crate) fn all_of(&self, owner: &Owner<'static>) -> impl DoubleEndedIterator<Item = RequestId> {
        let (few, many) = match self {
            Self::Few(waiters) => (waiters.as_slice(), None),
            Self::Many { owners, .. } => {
                let first = Bound::Included((owner.clone(), RequestId::MIN));
                let last = Bound::Included((owner.clone(), RequestId::MAX));
                (&[][..], Some(owners.range((first, last))))
            }
        };
        let few = few.iter().filter(move |(_, waits)| waits == owner).map(|(request, _)| *request);
        few.chain(many.into_iter().flatten().map(|(_, request)| *request))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = RequestId> {
        self.after(None)
    }

    /// Returns the waiters that came after the request `seen`, in order of arrival.
    pub(crate) fn after(&self, seen: Option<RequestId>) -> impl Iterator<Item = RequestId> {
        let (few, many) = match self {
            Self::Few(waiters) => (waiters.as_slice(), None),
            Self::Many { arrivals, .. } => {
                let first = seen.map_or(Bound::Unbounded, Bound::Excluded);
                (&[][..], Some(arrivals.range((first, Bound::Unbounded))))
            }
        };
        let few = few.iter().map(|(request, _)| *request).filter(move |request| Some(*request) > seen);
        few.chain(many.into_iter().flatten().copied())
    }
}

#[cfg(any(test, debug_assertions))]
impl Queue {
    /// Checks that a short queue is in order, and that both sets of a long queue have the same waiters.
    pub(crate) fn check(&self) {
        match self {
            Self::Few(waiters) => assert!(waiters.is_sorted_by(|(one, _), (next, _)| one < next)),
            Self::Many { arrivals, owners } => {
                let by_owner: BTreeSet<_> = owners.iter().map(|(_, request)| *request).collect();
                assert_eq!((&by_owner, owners.len()), (arrivals, arrivals.len()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn owner(name: &str) -> Owner<'_> {
        Owner::new(name.as_bytes()).unwrap()
    }

    fn request(number: u64) -> RequestId {
        RequestId(NonZeroU64::new(number).unwrap())
    }

    #[test]
    fn a_queue_is_first_come_first_served() {
        let mut queue = Queue::new();
        for (number, name) in [(1, "a"), (2, "b"), (3, "a"), (4, "c")] {
            queue.join(request(number), owner(name).into_owned());
        }
        assert_eq!(queue.head(), Some(request(1)));
        assert_eq!(queue.next_of(&owner("c"), None), Some(request(4)));
        assert_eq!(queue.next_of(&owner("d"), None), None);
        queue.leave(request(1), &owner("a"));
        assert_eq!(queue.head(), Some(request(2)));
        assert_eq!(queue.next_of(&owner("a"), None), Some(request(3)));
        assert_eq!(queue.iter().collect::<Vec<_>>(), [request(2), request(3), request(4)]);
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

        /// The queue behaves as a list does, whoever leaves in between.
        #[test]
        fn a_queue_keeps_the_order_of_arrival(moves in vec((any::<bool>(), 0..4usize), 0..60)) {
            let names = ["a", "b", "c", "d"];
            let (mut queue, mut list) = (Queue::new(), Vec::<(u64, usize)>::new());
            for (number, (join, who)) in (1..).zip(moves) {
                if join || list.is_empty() {
                    queue.join(request(number), owner(names[who]));
                    list.push((number, who));
                } else {
                    let (number, who) = list.remove(who % list.len());
                    queue.leave(request(number), &owner(names[who]));
                }
                prop_assert_eq!(queue.len(), list.len());
                prop_assert_eq!(queue.is_empty(), list.is_empty());
                prop_assert_eq!(queue.head(), list.first().map(|entry| request(entry.0)));
                for (who, name) in names.iter().enumerate() {
                    let first = list.iter().find(|entry| entry.1 == who).map(|entry| request(entry.0));
                    prop_assert_eq!(queue.next_of(&owner(name), None), first);
                }
            }
        }
    }
}
