//! What depends on each connection: sessions and places. `clear_up` ends them after the connection has closed.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use super::lock_id::LockId;
use super::queue::RequestId;
use super::waiter::Session;
use crate::lock::Fence;

#[derive(Debug, Default)]
#[cfg_attr(test, derive(Clone, PartialEq, Eq, Hash))]
struct Connection {
    /// The grants that the connection keeps alive, by lock and fence.
    sessions: BTreeSet<(LockId, Fence)>,
    /// The places, each with its weight.
    places: BTreeMap<RequestId, usize>,
    /// The weight of all sessions and places together.
    weight: usize,
    /// The connection's last wait that blocked it.
    blocked: Option<RequestId>,
}

/// A connection that has closed, and one session and one place that still depend on it.
pub(super) struct Closed {
    pub(super) client: u64,
    /// A grant that the connection kept alive.
    pub(super) session: Option<(LockId, Fence)>,
    pub(super) place: Option<RequestId>,
}

/// All connections on which a session or a place depends.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone, PartialEq, Eq, Hash))]
pub(crate) struct Connections {
    by_client: BTreeMap<u64, Connection>,
    /// The connections that have closed, but still have sessions or places.
    closed: BTreeSet<u64>,
    sessions: usize,
    places: usize,
}

impl Connections {
    pub(super) const fn new() -> Self {
        Self { by_client: BTreeMap::new(), closed: BTreeSet::new(), sessions: 0, places: 0 }
    }

    /// The number of grants that connections keep alive.
    pub(crate) fn sessions(&self) -> usize {
        self.sessions
    }

    /// The number of places.
    pub(crate) fn places(&self) -> usize {
        self.places
    }

    /// The weight of all places and sessions of a connection: see `LockRef::weight`.
    pub(crate) fn weight_of(&self, client: u64) -> usize {
        self.by_client.get(&client).map_or(0, |connection| connection.weight)
    }

    pub(super) fn add_session(&mut self, client: u64, id: LockId, fence: Fence) {
        let connection = self.by_client.entry(client).or_default();
        let weight = id.to_ref().weight();
        if connection.sessions.insert((id, fence)) {
            connection.weight += weight;
            self.sessions += 1;
        }
    }

    pub(super) fn remove_session(&mut self, client: u64, id: &LockId, fence: Fence) {
        let Some(connection) = self.by_client.get_mut(&client) else { return };
        if connection.sessions.remove(&(id.clone(), fence)) {
            connection.weight -= id.to_ref().weight();
            self.sessions -= 1;
        }
        self.drop_empty(client);
    }

    /// Notes that a wait blocks a connection. A connection without sessions and places is not noted: it can't get any while it is blocked.
    pub(super) fn block(&mut self, client: u64, request: RequestId) {
        if let Some(connection) = self.by_client.get_mut(&client) {
            connection.blocked = Some(request);
        }
    }

    /// The last wait that blocked a connection, if it has sessions or places.
    pub(super) fn blocked(&self, client: u64) -> Option<RequestId> {
        self.by_client.get(&client)?.blocked
    }

    pub(super) fn add_place(&mut self, client: u64, request: RequestId, weight: usize) {
        let connection = self.by_client.entry(client).or_default();
        if connection.places.insert(request, weight).is_none() {
            connection.weight += weight;
            self.places += 1;
        }
    }

    pub(super) fn remove_place(&mut self, client: u64, request: RequestId) {
        let Some(connection) = self.by_client.get_mut(&client) else { return };
        if let Some(weight) = connection.places.remove(&request) {
            connection.weight -= weight;
            self.places -= 1;
        }
        self.drop_empty(client);
    }

    fn drop_empty(&mut self, client: u64) {
        let is_empty =
            |connection: &Connection| connection.sessions.is_empty() && connection.places.is_empty();
        if self.by_client.get(&client).is_some_and(is_empty) {
            self.by_client.remove(&client);
            self.closed.remove(&client);
        }
    }

    /// Notes that a connection has closed: its sessions and places are to be ended. Returns whether it had any.
    pub(crate) fn close(&mut self, client: u64) -> bool {
        self.by_client.contains_key(&client) && self.closed.insert(client)
    }

    pub(super) fn is_closed(&self, client: u64) -> bool {
        !self.closed.is_empty() && self.closed.contains(&client)
    }

    /// Whether the connection of this session has closed.
    pub(super) fn is_over(&self, session: &Session) -> bool {
        session.over || self.is_closed(session.client)
    }

    pub(super) fn closed(&self) -> usize {
        self.closed.len()
    }

    /// The grants of a lock, after the fence `seen`, whose connections have closed: at most `most` for each connection.
    pub(super) fn closed_sessions(
        &self,
        id: &LockId,
        seen: Option<Fence>,
        most: usize,
    ) -> impl Iterator<Item = Fence> {
        let unseen = move |connection: &Connection| {
            let after = match seen {
                Some(seen) => Bound::Excluded((id.clone(), seen)),
                None => Bound::Included((id.clone(), Fence::MIN)),
            };
            let sessions = connection.sessions.range((after, Bound::Unbounded));
            let of_lock = sessions.take_while(|(other, _)| other == id);
            of_lock.map(|(_, fence)| *fence).take(most).collect::<Vec<_>>()
        };
        self.closed.iter().filter_map(|client| self.by_client.get(client)).flat_map(unseen)
    }

    pub(super) fn has_closed(&self) -> bool {
        !self.closed.is_empty()
    }

    /// A connection that has closed, and its next session and next place to end. Places are ended from the last to the first, so that no
    /// place of the connection is granted what another place gives up.
    pub(super) fn next_of_closed(&self) -> Option<Closed> {
        let client = *self.closed.first()?;
        let connection = self.by_client.get(&client)?;
        let session = connection.sessions.first().cloned();
        Some(Closed {
            client,
            session,
            place: connection.places.last_key_value().map(|(request, _)| *request),
        })
    }
}

#[cfg(any(test, debug_assertions))]
impl Connections {
    pub(super) fn has_session(&self, client: u64, id: &LockId, fence: Fence) -> bool {
        let connection = self.by_client.get(&client);
        connection.is_some_and(|connection| connection.sessions.contains(&(id.clone(), fence)))
    }

    pub(super) fn has_place(&self, client: u64, request: RequestId) -> bool {
        self.by_client.get(&client).is_some_and(|connection| connection.places.contains_key(&request))
    }

    /// The counts agree with the connections, and each connection has a session or a place.
    pub(super) fn check(&self) {
        let (mut sessions, mut places) = (0, 0);
        for (client, connection) in &self.by_client {
            let locks = connection.sessions.iter().map(|(id, _)| id.to_ref().weight());
            let weight = locks.sum::<usize>() + connection.places.values().sum::<usize>();
            assert_eq!(weight, connection.weight, "{client}");
            assert!(!connection.sessions.is_empty() || !connection.places.is_empty(), "{client}");
            sessions += connection.sessions.len();
            places += connection.places.len();
        }
        assert_eq!((sessions, places), (self.sessions, self.places));
        assert!(self.closed.iter().all(|client| self.by_client.contains_key(client)));
    }
}

#[cfg(test)]
impl Connections {
    pub(super) fn clients(&self) -> impl Iterator<Item = u64> {
        self.by_client.keys().copied()
    }

    pub(super) fn renumber_clients(&mut self, ids: &BTreeMap<u64, u64>) {
        let by_client = std::mem::take(&mut self.by_client).into_iter();
        self.by_client = by_client.map(|(id, connection)| (ids[&id], connection)).collect();
        self.closed = self.closed.iter().map(|id| ids[id]).collect();
    }

    pub(super) fn renumber_requests(&mut self, requests: &BTreeMap<RequestId, RequestId>) {
        for connection in self.by_client.values_mut() {
            let places = std::mem::take(&mut connection.places).into_iter();
            connection.places = places.map(|(request, weight)| (requests[&request], weight)).collect();
            connection.blocked = connection.blocked.and_then(|request| requests.get(&request).copied());
        }
    }
}
