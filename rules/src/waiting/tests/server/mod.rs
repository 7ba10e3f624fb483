//! A small server around the rules of `waiting`: it has a few keys and connections, and makes the calls that servers make to a module. It
//! decides nothing. The time is passed in, and nothing is random.
//!
//! - `turn`: steps on keys, and `Host`, as in `serving` for the real server.
//! - `commands`: the commands that clients send.
//! - `clients`: blocked clients and connections, until the server has freed them.
//! - `keyspace`: the keys, and what replicas do with effects.
//! - `events`: other events of a server.
//! - `views`: what tests see of the server.

mod clients;
mod commands;
mod events;
mod keyspace;
mod turn;
mod views;

use std::collections::{BTreeMap, BTreeSet};

use crate::encoding::Effect;
use crate::lock::{
    Deadline, Fence, FenceClock, Got, Millis, Now, Owner, ReentryError, Room, Slot, SlotRequest, Value,
};
use crate::waiting::replication::Offset;
use crate::waiting::{Cycle, Grace, LockRef, Message, Moment, RequestId, Table};

/// The number of a connection. When the connection closes, another connection gets its number.
pub(crate) type Conn = u8;

/// The number of a lock. Methods without this argument use the first lock.
pub(crate) type Lock = usize;

pub(crate) const KEYS: [&[u8]; 3] = [b"k", b"l", b"m"];

pub(crate) const AT: LockRef<'static> = at(0);

pub(crate) const fn at(lock: Lock) -> LockRef<'static> {
    LockRef { db: 0, key: KEYS[lock] }
}

/// The settings of a server, and the ways in which servers differ.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    pub(crate) max_hold: Option<Millis>,
    pub(crate) grace: Millis,
    /// The longest lease in ms, if there is a limit.
    pub(crate) max_lease: Option<Millis>,
    /// How long a grant may stay unclaimed, in ms.
    pub(crate) claim: Millis,
    /// Whether the server is done with an unblocked client only after it has served others, like a server with I/O threads.
    pub(crate) late: bool,
    /// Whether the answer to an unblocked client is lost if an operator sends the client away before the server is done with it, as on
    /// Valkey.
    pub(crate) keeps_answers: bool,
    /// Whether a turn ends after a little work.
    pub(crate) slow: bool,
    /// The most holders that a lock may have.
    pub(crate) max_holders: Room,
    /// The most waiters for a lock, and the most locks that may depend on a connection.
    pub(crate) most_waiters: Option<usize>,
    pub(crate) most_places: Option<usize>,
}

impl Rules {
    pub(crate) const PLAIN: Self = Self {
        max_hold: None,
        grace: 0,
        max_lease: None,
        claim: 1,
        late: false,
        keeps_answers: false,
        slow: false,
        max_holders: Room::ANY,
        most_waiters: None,
        most_places: None,
    };
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Reply {
    Granted {
        fence: Fence,
        holds: u32,
        slot: Option<Slot>,
        deadline: Deadline,
    },
    /// Grants of several locks, and the end of the lease that ends first.
    All(Vec<Got>, Deadline),
    Null,
    Grace,
    Waits,
    Queued,
    NoReentry(ReentryError),
    Deadlock,
    /// The wait would never end.
    Cycle(Cycle),
    /// The lease has been extended to this deadline.
    Extended(Deadline),
    NotHeld,
    /// Too many clients would wait for the lock, or too many locks would depend on the connection.
    TooMany,
    /// Too few replicas have confirmed the grant or the extension.
    NoReplicas,
    /// An operator sent the client away with an error.
    Unblocked,
}

impl Reply {
    pub(crate) fn granted(got: Got, deadline: Deadline) -> Self {
        Self::Granted { fence: got.fence, holds: got.holds, slot: got.slot, deadline }
    }
}

/// How a client waits in a queue.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Queued {
    Blocked(Conn),
    Notified(Owner<'static>),
}

/// A waiter in a queue, and its request.
pub(crate) struct QueuedRequest {
    pub(crate) request: RequestId,
    pub(crate) by: Queued,
    pub(crate) owner: Owner<'static>,
    pub(crate) room: Room,
    pub(crate) slot: Option<SlotRequest>,
}

/// What the server does with the commands that settle locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Writes {
    Taken,
    Refused,
    /// The lock's hash slot is moving to this server.
    Arriving,
    /// Another server has the lock's hash slot.
    Elsewhere,
    /// Clients are paused.
    Paused,
    Replica,
}

/// A connection that the server believes to be open.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Connection {
    pub(crate) id: u64,
    /// Whether the client is gone. The server finds this out one turn of its event loop later.
    pub(crate) vanished: bool,
    /// Whether the server closes the connection at the end of this turn, for example because its user was deleted. Until then, the
    /// connection counts as open, but nothing is sent on it.
    pub(crate) doomed: bool,
}

impl Connection {
    pub(crate) fn new(id: u64) -> Self {
        Self { id, vanished: false, doomed: false }
    }
}

/// A blocked client that the server has not freed yet.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Blocked {
    pub(crate) conn: Conn,
    pub(crate) id: u64,
    /// Whether the connection has closed, or an operator has sent the client away with an error.
    pub(crate) gone: bool,
    /// Whether the server can free the client.
    pub(crate) done: bool,
    /// Whether the client was answered because of `UnblockClient`, not by an operator.
    pub(crate) unblocked: bool,
    /// The client's answer, which is sent with the other replies of the turn, when the server is done with the client.
    pub(crate) answer: Option<Reply>,
}

impl Blocked {
    pub(crate) fn new(conn: Conn, id: u64) -> Self {
        Self { conn, id, gone: false, done: false, unblocked: false, answer: None }
    }
}

/// A server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Server {
    pub(crate) locks: [Option<(Value, Deadline)>; KEYS.len()],
    pub(crate) fences: FenceClock,
    pub(crate) table: Table<RequestId>,
    pub(crate) grace: Grace,
    /// For how many ms the server has been busy, and frozen, in addition to the time of its world.
    pub(crate) busy: Millis,
    pub(crate) frozen: Millis,
    pub(crate) conns: Vec<Connection>,
    pub(crate) blocked: BTreeMap<RequestId, Blocked>,
    /// The id of the next connection.
    pub(crate) next_id: u64,
    /// The effects that have not been sent to replicas yet, each with its lock. (The server's own `PEXPIREAT` counts as one, too.)
    pub(crate) effects: Vec<(Lock, Effect)>,
    /// The answers that have been sent to waiters, until a test takes them.
    pub(crate) told: Vec<(Conn, Reply)>,
    /// Whether no channel has a subscriber, and the channels that have none.
    pub(crate) deaf: bool,
    pub(crate) unheard: BTreeSet<Vec<u8>>,
    /// The messages that have been published.
    pub(crate) messages: Vec<Message>,
    /// The number of effects that have been sent to replicas, and the number that the first replica has acknowledged.
    pub(crate) written: Offset,
    pub(crate) acked: Offset,
    /// The number of effects that each other replica has acknowledged.
    pub(crate) more_acked: Vec<Offset>,
    /// Whether replicas acknowledge all effects at once.
    pub(crate) hears: bool,
}

impl Server {
    pub(crate) fn new(conns: Conn) -> Self {
        Self {
            locks: [const { None }; KEYS.len()],
            fences: FenceClock::new(),
            table: Table::new(),
            grace: Grace::new(),
            busy: 0,
            frozen: 0,
            conns: (0..conns).map(|conn| Connection::new(u64::from(conn))).collect(),
            blocked: BTreeMap::new(),
            next_id: u64::from(conns),
            effects: Vec::new(),
            told: Vec::new(),
            deaf: false,
            unheard: BTreeSet::new(),
            messages: Vec::new(),
            written: 1,
            acked: 1,
            more_acked: Vec::new(),
            hears: false,
        }
    }

    /// Returns the offset that each replica has acknowledged.
    pub(crate) fn acks(&self) -> Vec<Offset> {
        [&[self.acked], self.more_acked.as_slice()].concat()
    }

    pub(crate) fn acks_in_order(&self) -> Vec<Offset> {
        let mut acks = self.acks();
        acks.sort_unstable_by(|one, other| other.cmp(one));
        acks
    }

    pub(crate) fn moment(&self, now: Millis) -> Moment {
        let ran = now + self.busy;
        Moment { since_boot: ran + self.frozen, ran }
    }

    /// Renumbers waiters and connections, without changing their order: servers that differ only in these numbers are then equal. `cut_off`
    /// says that replicas will never acknowledge anything more.
    pub(crate) fn renumber(&mut self, cut_off: bool) {
        let (known, most) = (self.acked - 1, if cut_off { 2 } else { Offset::MAX });
        self.table.replication.shift_offsets(known, most);
        (self.written, self.acked) = ((self.written - known).min(most), 1);
        let requests = self.table.renumber_requests();
        let clients = self.renumber_blocked(&requests, self.table.clients());
        self.table.renumber_clients(&clients);
    }

    /// Renumbers blocked clients by these new numbers of their requests, and all connections. Returns the new numbers of connections.
    fn renumber_blocked(
        &mut self,
        requests: &BTreeMap<RequestId, RequestId>,
        clients: impl IntoIterator<Item = u64>,
    ) -> BTreeMap<u64, u64> {
        self.blocked = std::mem::take(&mut self.blocked)
            .into_iter()
            .map(|(request, blocked)| (requests[&request], blocked))
            .collect();
        let open = self.conns.iter().map(|conn| conn.id);
        let ids: BTreeMap<u64, u64> = open.chain(clients).zip(0..).collect();
        // If an id occurs twice, the later number wins, which does no harm.
        let ids: BTreeMap<u64, u64> = ids.into_keys().zip(0..).collect();
        self.next_id = ids.len() as u64;
        for conn in &mut self.conns {
            conn.id = ids[&conn.id];
        }
        for blocked in self.blocked.values_mut() {
            blocked.id = ids.get(&blocked.id).copied().unwrap_or(u64::MAX);
        }
        ids
    }
}

pub(crate) fn time(now: Millis) -> Now {
    Now { micros: now * 1000, start: now }
}
