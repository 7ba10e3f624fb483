//! What is kept only to be shown (`Observers`); most of all, the locks that are waited for most often.
//!
//! The list of these locks has a bounded size, by the Space-Saving algorithm (Metwally, Agrawal, El Abbadi: "Efficient Computation of
//! Frequent and Top-k Elements in Data Streams", 2005): if the list is full, a new lock takes the place, and the count, of the lock with
//! the smallest count. So a count may be too great, by no more than the smallest count, and is never too small. A lock that has more than
//! 1/`MOST` of all waits is always in the list, unless its name is longer than `LONGEST`.

use foldhash::fast::RandomState;
use indexmap::IndexMap;

use super::lock_id::LockId;
use super::queue::RequestId;
use crate::lock::Micros;

/// The most locks in the list.
const MOST: usize = 128;

/// The longest name, in bytes, of a lock in the list. There is a limit because the list keeps the names of locks that are long gone.
const LONGEST: usize = 4096;

/// How often a lock has been waited for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Busy {
    pub waits: u64,
    /// By how much `waits` may be too great: up to this many of the counted waits may have been for other locks.
    pub error: u64,
    /// When the last of these waits began.
    pub last: Micros,
}

/// The locks and their counts, the greatest count first. The list is made only at the first wait, because its hash needs a random seed,
/// which `new`, a `const fn`, can't get.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone, PartialEq, Eq))]
pub(crate) struct Busiest(Option<IndexMap<LockId, Busy, RandomState>>);

impl Busiest {
    pub(crate) const fn new() -> Self {
        Self(None)
    }

    /// Counts a wait for a lock.
    pub(crate) fn count(&mut self, id: &LockId, now: Micros) {
        if id.key.len() > LONGEST {
            return;
        }
        let table = self.0.get_or_insert_default();
        let (rank, waits) = match table.get_full_mut(id) {
            Some((rank, _, busy)) => {
                (busy.waits, busy.last) = (busy.waits.saturating_add(1), now);
                (rank, busy.waits)
            }
            None => {
                let least = if table.len() < MOST { None } else { table.pop() };
                let error = least.map_or(0, |(_, busy)| busy.waits);
                let waits = error.saturating_add(1);
                (table.insert_full(id.clone(), Busy { waits, error, last: now }).0, waits)
            }
        };
        // The lock moves ahead of all other locks with its previous count.
        let before = table.get_range(..rank);
        let first = before.map_or(rank, |before| before.partition_point(|_, busy| busy.waits >= waits));
        if first < rank {
            table.swap_indices(first, rank);
        }
    }

    /// Returns all locks of the list, the greatest count first.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&LockId, &Busy)> {
        self.0.iter().flatten()
    }
}

/// What is kept only to be shown.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone))]
pub(super) struct Observers {
    /// No request with a lower number is in a queue.
    pub(super) first: RequestId,
    /// The last waiter that `long_waits` has looked at.
    pub(super) long_waits: RequestId,
    /// How many waits have ended without a grant.
    pub(super) ungranted: u64,
    pub(super) busiest: Busiest,
}

impl Observers {
    pub(super) const fn new() -> Self {
        Self { first: RequestId::MIN, long_waits: RequestId::MIN, ungranted: 0, busiest: Busiest::new() }
    }

    /// The waiters up to this request are not shown any more.
    pub(super) fn demoted(&mut self, last: RequestId, waited: usize) {
        self.first = RequestId(last.0.saturating_add(1));
        self.long_waits = last;
        self.ungranted += waited as u64;
    }
}

#[cfg(test)]
impl PartialEq for Observers {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

#[cfg(test)]
impl Eq for Observers {}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::super::LockRef;
    use super::*;

    fn id(number: u16) -> LockId {
        LockRef { db: 0, key: &number.to_be_bytes() }.to_id()
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

        /// Checks the promises of the algorithm.
        #[test]
        fn counts_are_never_too_small_and_too_great_by_the_error_at_most(
            waits in vec(prop_oneof![0..10u16, 0..100u16, 0..1000u16], 0..3000)
        ) {
            let (mut busiest, mut truth) = (Busiest::new(), BTreeMap::<LockId, u64>::new());
            for (time, number) in (1..).zip(&waits) {
                busiest.count(&id(*number), time);
                *truth.entry(id(*number)).or_default() += 1;
            }
            let table: Vec<_> = busiest.all().collect();
            prop_assert!(table.len() == truth.len().min(MOST));
            prop_assert!(table.is_sorted_by(|(_, one), (_, next)| one.waits >= next.waits));
            for (id, busy) in &table {
                let really = truth[*id];
                prop_assert!((really..=really + busy.error).contains(&busy.waits));
            }
            prop_assert_eq!(table.iter().map(|(_, busy)| busy.waits).sum::<u64>(), waits.len() as u64);
            for (id, really) in truth {
                let often = really * MOST as u64 > waits.len() as u64;
                prop_assert!(!often || table.iter().any(|(known, _)| **known == id));
            }
        }
    }

    #[test]
    fn names_that_are_too_long_are_not_kept() {
        let mut busiest = Busiest::new();
        for len in [LONGEST, LONGEST + 1] {
            busiest.count(&LockRef { db: 0, key: &vec![b'k'; len] }.to_id(), 1);
        }
        let kept: Vec<usize> = busiest.all().map(|(id, _)| id.key.len()).collect();
        assert_eq!(kept, [LONGEST]);
    }

    #[test]
    fn the_last_wait_is_that_of_the_lock() {
        let mut busiest = Busiest::new();
        for (number, time) in [(1, 5), (2, 6), (1, 7)] {
            busiest.count(&id(number), time);
        }
        let last: Vec<Micros> = busiest.all().map(|(_, busy)| busy.last).collect();
        assert_eq!(last, [7, 6]);
    }
}
