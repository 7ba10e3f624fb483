//! What depends on each connection: the grants that it keeps alive, and its places.

use std::collections::{BTreeMap, BTreeSet};

use super::lock_id::LockId;
use super::queue::RequestId;
use crate::lock::Fence;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(test, derive(Hash))]
pub(super) enum Dependent {
    Session(LockId, Fence),
    Place(RequestId),
}

#[derive(Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(Clone, Hash))]
pub(super) struct Connections {
    pub(super) all: BTreeSet<(u64, Dependent)>,
    /// The weight of all that depends on a connection (see `LockRef::weight`), which is never 0.
    pub(super) weights: BTreeMap<u64, usize>,
    /// The connections that have closed, but still have dependents.
    pub(super) closed: BTreeSet<u64>,
    /// The last wait that blocked a connection on which anything depends.
    pub(super) blocked: BTreeMap<u64, RequestId>,
    /// How many of the dependents are sessions.
    pub(super) sessions: usize,
}

impl Connections {
    pub(super) const fn new() -> Self {
        Self {
            all: BTreeSet::new(),
            weights: BTreeMap::new(),
            closed: BTreeSet::new(),
            blocked: BTreeMap::new(),
            sessions: 0,
        }
    }

    pub(super) fn add(&mut self, connection: u64, dependent: Dependent, weight: usize) {
        let session = usize::from(matches!(dependent, Dependent::Session(..)));
        if self.all.insert((connection, dependent)) {
            self.sessions += session;
            *self.weights.entry(connection).or_default() += weight;
        }
    }

    pub(super) fn remove(&mut self, connection: u64, dependent: Dependent, weight: usize) {
        let session = usize::from(matches!(dependent, Dependent::Session(..)));
        let is_known = self.all.remove(&(connection, dependent));
        self.sessions -= if is_known { session } else { 0 };
        if is_known && let Some(all) = self.weights.get_mut(&connection) {
            *all -= weight;
            if *all == 0 {
                self.weights.remove(&connection);
                self.closed.remove(&connection);
                self.blocked.remove(&connection);
            }
        }
    }

    pub(super) fn places(&self) -> usize {
        self.all.len() - self.sessions
    }

    /// A wait blocks a connection, which gets no dependents meanwhile.
    pub(super) fn block(&mut self, connection: u64, request: RequestId) {
        if self.weights.contains_key(&connection) {
            self.blocked.insert(connection, request);
        }
    }

    pub(super) fn weight_of(&self, connection: u64) -> usize {
        self.weights.get(&connection).copied().unwrap_or(0)
    }

    /// A connection has closed. Returns whether anything depended on it.
    pub(super) fn close(&mut self, connection: u64) -> bool {
        self.weights.contains_key(&connection) && self.closed.insert(connection)
    }

    pub(super) fn is_closed(&self, connection: u64) -> bool {
        !self.closed.is_empty() && self.closed.contains(&connection)
    }

    /// The next to end because its connection has closed. Places end from the last to the first, so that none of them gets a lock that
    /// another gives up.
    pub(super) fn next_of_closed(&self) -> Option<(u64, Dependent)> {
        let connection = *self.closed.first()?;
        self.all.range(..=(connection, Dependent::Place(RequestId::MAX))).next_back().cloned()
    }

    /// The grants of this lock that closed connections kept alive.
    pub(super) fn closed_at(&self, id: &LockId) -> Vec<Fence> {
        let row = |connection: u64, fence| (connection, Dependent::Session(id.clone(), fence));
        let rows =
            |connection: &u64| self.all.range(row(*connection, Fence::MIN)..=row(*connection, Fence::MAX));
        let fence = |row: &(u64, Dependent)| match &row.1 {
            Dependent::Session(_, fence) => Some(*fence),
            Dependent::Place(_) => None,
        };
        self.closed.iter().flat_map(rows).filter_map(fence).collect()
    }
}
