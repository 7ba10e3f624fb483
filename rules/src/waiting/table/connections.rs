//! What depends on each connection: sessions (grants that the connection keeps alive), and places (waiters that are not blocked). After the
//! connection has closed, `clear_up` ends its sessions, and gives up its places.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use super::index::Index;
use super::lock_id::LockId;
use super::queue::RequestId;
use super::waiter::Session;
use crate::lock::Fence;

#[derive(Debug, Default)]
#[cfg_attr(test, derive(Clone, PartialEq, Eq, Hash))]
struct Connection {
    /// The weight of all sessions and places of the connection together (see `LockRef::weight`), which is never 0.
    weight: usize,
    /// The last wait that blocked the connection.
    blocked: Option<RequestId>,
}

/// One session and one place, if there are any, that still depend on a connection that has closed.
pub(super) struct Closed {
    /// A grant that the connection kept alive.
    pub(super) session: Option<(LockId, Fence)>,
    pub(super) place: Option<RequestId>,
}

/// All connections on which a session or a place depends.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone, PartialEq, Eq, Hash))]
pub struct Connections {
    by_client: BTreeMap<u64, Connection>,
    /// The connections that have closed, but still have sessions or places.
    closed: BTreeSet<u64>,
    /// The grants that connections keep alive, by connection.
    sessions: Index<u64, (LockId, Fence)>,
    /// The places, by connection.
    places: Index<u64, RequestId>,
}

impl Connections {
    pub(super) const fn new() -> Self {
        Self {
            by_client: BTreeMap::new(),
            closed: BTreeSet::new(),
            sessions: Index::new(),
            places: Index::new(),
        }
    }

    pub fn sessions(&self) -> usize {
        self.sessions.len()
    }

    pub fn places(&self) -> usize {
        self.places.len()
    }

    pub(crate) fn weight_of(&self, client: u64) -> usize {
        self.by_client.get(&client).map_or(0, |connection| connection.weight)
    }

    /// Notes that a session has moved from one connection to another. `from` is `None` if the session begins, and `to` is `None` if it
    /// ends.
    pub(super) fn set_session(&mut self, id: &LockId, fence: Fence, from: Option<u64>, to: Option<u64>) {
        if from != to {
            self.sessions.set(&(id.clone(), fence), from, to);
            self.set_weight(id.to_ref().weight(), from, to);
        }
    }

    /// Notes that a place of this weight has moved from one connection to another. `from` is `None` if the place is new, and `to` is `None`
    /// if it has ended.
    pub(super) fn set_place(
        &mut self,
        request: RequestId,
        weight: usize,
        from: Option<u64>,
        to: Option<u64>,
    ) {
        if from != to {
            self.places.set(&request, from, to);
            self.set_weight(weight, from, to);
        }
    }

    fn set_weight(&mut self, weight: usize, from: Option<u64>, to: Option<u64>) {
        if let Some(client) = to {
            self.by_client.entry(client).or_default().weight += weight;
        }
        if let Some(client) = from
            && let Some(connection) = self.by_client.get_mut(&client)
        {
            connection.weight -= weight;
            if connection.weight == 0 {
                self.by_client.remove(&client);
                self.closed.remove(&client);
            }
        }
    }

    /// Notes that a wait blocks a connection. Leaves out a connection without sessions and places, because it can't get any while it is
    /// blocked.
    pub(super) fn block(&mut self, client: u64, request: RequestId) {
        if let Some(connection) = self.by_client.get_mut(&client) {
            connection.blocked = Some(request);
        }
    }

    /// Returns the last wait that blocked a connection, if this connection has sessions or places.
    pub(super) fn blocked(&self, client: u64) -> Option<RequestId> {
        self.by_client.get(&client)?.blocked
    }

    /// Notes that a connection has closed, so that `clear_up` ends its sessions and places. Returns whether the connection has
    /// any, and had not been noted before.
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

    /// Returns the grants of a lock, after the fence `seen`, whose connections have closed: at most `most` grants for each connection.
    pub(super) fn closed_sessions(
        &self,
        id: &LockId,
        seen: Option<Fence>,
        most: usize,
    ) -> impl Iterator<Item = Fence> {
        self.closed.iter().flat_map(move |client| {
            let after = match seen {
                Some(seen) => Bound::Excluded((*client, (id.clone(), seen))),
                None => Bound::Included((*client, (id.clone(), Fence::MIN))),
            };
            let sessions = self.sessions.range((after, Bound::Unbounded));
            let its = sessions.take_while(|(keeper, (other, _))| keeper == client && other == id);
            its.map(|(_, (_, fence))| *fence).take(most).collect::<Vec<_>>()
        })
    }

    pub(super) fn has_closed(&self) -> bool {
        !self.closed.is_empty()
    }

    /// Returns the next session and the next place that have to end because their connection has closed. Places end from the last to the
    /// first, so that no place of the connection is granted a lock that another place gives up.
    pub(super) fn next_of_closed(&self) -> Option<Closed> {
        let client = *self.closed.first()?;
        let sessions = self.sessions.range((client, (LockId::first(), Fence::MIN))..);
        let session =
            sessions.take(1).find(|(keeper, _)| *keeper == client).map(|(_, session)| session.clone());
        Some(Closed { session, place: self.places.of(client).next_back() })
    }
}

#[cfg(any(test, debug_assertions))]
impl Connections {
    pub(super) fn check(&self, indexed: &Self) {
        assert_eq!((&self.sessions, &self.places), (&indexed.sessions, &indexed.places));
        let weights = |all: &Self| -> BTreeMap<u64, usize> {
            all.by_client.iter().map(|(client, connection)| (*client, connection.weight)).collect()
        };
        assert_eq!(weights(self), weights(indexed));
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
        self.sessions.renumber(|client, session| (ids[&client], session));
        self.places.renumber(|client, request| (ids[&client], request));
    }

    pub(super) fn renumber_requests(&mut self, requests: &BTreeMap<RequestId, RequestId>) {
        self.places.renumber(|client, request| (client, requests[&request]));
        for connection in self.by_client.values_mut() {
            connection.blocked = connection.blocked.and_then(|request| requests.get(&request).copied());
        }
    }
}
