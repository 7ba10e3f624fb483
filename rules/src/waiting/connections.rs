//! What depends on each connection: the grants that it keeps alive, and its places.

use std::collections::{BTreeMap, BTreeSet};

use super::lock_id::LockId;
use super::queue::RequestId;
use crate::lock::Fence;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Dependent {
    Session(LockId, Fence),
    Place(RequestId),
}

#[derive(Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(Clone, Hash))]
pub(super) struct Connections {
    pub(super) sessions: BTreeSet<(u64, LockId, Fence)>,
    pub(super) places: BTreeSet<(u64, RequestId)>,
    /// The weight of all that depends on a connection (see `LockRef::weight`), which is never 0.
    pub(super) weights: BTreeMap<u64, usize>,
    /// The connections that have closed, but still have dependents.
    pub(super) closed: BTreeSet<u64>,
    /// The last wait that blocked a connection on which anything depends. (It gets no dependents meanwhile.)
    pub(super) blocked: BTreeMap<u64, RequestId>,
}

impl Connections {
    pub(super) const fn new() -> Self {
        Self {
            sessions: BTreeSet::new(),
            places: BTreeSet::new(),
            weights: BTreeMap::new(),
            closed: BTreeSet::new(),
            blocked: BTreeMap::new(),
        }
    }

    pub(super) fn add(&mut self, connection: u64, dependent: Dependent, weight: usize) {
        let is_new = match dependent {
            Dependent::Session(id, fence) => self.sessions.insert((connection, id, fence)),
            Dependent::Place(request) => self.places.insert((connection, request)),
        };
        if is_new {
            *self.weights.entry(connection).or_default() += weight;
        }
    }

    pub(super) fn remove(&mut self, connection: u64, dependent: Dependent, weight: usize) {
        let is_known = match dependent {
            Dependent::Session(id, fence) => self.sessions.remove(&(connection, id, fence)),
            Dependent::Place(request) => self.places.remove(&(connection, request)),
        };
        if is_known && let Some(all) = self.weights.get_mut(&connection) {
            *all -= weight;
            if *all == 0 {
                self.weights.remove(&connection);
                self.closed.remove(&connection);
                self.blocked.remove(&connection);
            }
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

    /// The next session or place to end because its connection has closed. Places end from the last to the first, so that none of them gets
    /// a lock that another gives up.
    pub(super) fn next_of_closed(&self) -> Option<Dependent> {
        let connection = *self.closed.first()?;
        let mut places = self.places.range((connection, RequestId::MIN)..=(connection, RequestId::MAX));
        if let Some((_, request)) = places.next_back() {
            return Some(Dependent::Place(*request));
        }
        let mut sessions = self.sessions.range(..(connection + 1, LockId::first(), Fence::MIN));
        sessions.next_back().map(|(_, id, fence)| Dependent::Session(id.clone(), *fence))
    }

    /// The grants of this lock that closed connections kept alive.
    pub(super) fn closed_at(&self, id: &LockId) -> Vec<Fence> {
        let row = |connection: u64, fence| (connection, id.clone(), fence);
        let rows = |connection: &u64| {
            self.sessions.range(row(*connection, Fence::MIN)..=row(*connection, Fence::MAX))
        };
        self.closed.iter().flat_map(rows).map(|(_, _, fence)| *fence).collect()
    }
}
