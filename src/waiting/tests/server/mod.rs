//! A server in small around the rules of `waiting`: a few keys, connections, and what servers do to a module. It decides
//! nothing. Time comes in; nothing is random.
//!
//! - `turn`: the seam (`Environment`, `LockAccess`, `Host`, `Caller`), as `serving` has it for real.
//! - `commands`: what clients ask for.
//! - `clients`: blocked clients and connections, from the answer to the server's last word on them.
//! - `keyspace`: the key, and what replicas are told of it.
//! - `befalls`: what else happens to a server.
//! - `views`: what is to be seen of it.

mod befalls;
mod clients;
mod commands;
mod keyspace;
mod turn;
mod views;

use std::collections::BTreeMap;

use crate::lock::{
    Deadline, Fence, FenceClock, Got, Grant, Millis, Now, Owner, ReentryError, Room, Slot, SlotRequest, Value,
};
use crate::waiting::table::Offset;
use crate::waiting::{Circle, Grace, LockRef, Message, Moment, RequestId, WaitTable};
use clients::{Blocked, Connection};

/// A connection, by number. One that closes is followed by another of the same number.
pub(crate) type Conn = u8;

/// A lock, by number. The first is the one that is meant where none is named.
pub(crate) type Lock = usize;

pub(crate) const KEYS: [&[u8]; 3] = [b"k", b"l", b"m"];

const AT: LockRef<'static> = at(0);

const fn at(lock: Lock) -> LockRef<'static> {
    LockRef { db: 0, key: KEYS[lock] }
}

/// How this server differs from others, and what it is set to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    pub(crate) max_hold: Option<Millis>,
    pub(crate) grace: Millis,
    /// The longest lease, where one is set.
    pub(crate) max_lease: Option<Millis>,
    /// How long a grant may be left unclaimed.
    pub(crate) claim: Millis,
    /// The server is done with an unblocked client only after others have been served, as with threads for input.
    pub(crate) late: bool,
    /// The answer of an unblocked client is lost where an operator sends it away before the server is done with it, as on
    /// Valkey.
    pub(crate) keeps_answers: bool,
    /// A turn is over as soon as a little of each kind of work has been done.
    pub(crate) slow: bool,
    /// The most holders of the lock.
    pub(crate) max_holders: Room,
    /// The most waiters for a lock, and how much may hang on a connection.
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

/// What a client is told.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Reply {
    Granted {
        fence: Fence,
        holds: u32,
        slot: Option<Slot>,
        deadline: Deadline,
    },
    /// Several locks, and the end of the lease that ends first.
    All(Vec<Got>, Deadline),
    Null,
    Grace,
    Waits,
    Queued,
    NoReentry(ReentryError),
    Deadlock,
    /// The wait would never end.
    Circle(Circle),
    /// The client's grants are extended to this end.
    Extended(Deadline),
    NotHeld,
    /// More would wait for the lock, or hang on the connection, than may.
    TooMany,
    /// Too few replicas have confirmed the grant or extension.
    NoReplicas,
    /// An operator sent the client away with an error.
    Unblocked,
}

impl Reply {
    fn granted(got: Got, deadline: Deadline) -> Self {
        Self::Granted { fence: got.fence, holds: got.holds, slot: got.slot, deadline }
    }
}

/// How a client waits in a queue.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Queued {
    Blocked(Conn),
    Notified(Owner<'static>),
}

/// A client in a queue, and what it asks for.
pub(crate) struct QueuedRequest {
    pub(crate) by: Queued,
    pub(crate) owner: Owner<'static>,
    pub(crate) room: Room,
    pub(crate) slot: Option<SlotRequest>,
}

/// What replicas are told: `LOCK.APPLY`, and the server's own `PEXPIREAT`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Effect {
    Alone(Grant, Deadline),
    Among(Grant, Deadline),
    Lease(Deadline),
    Ended(Fence),
    Lapsed(Millis),
    Free,
}

/// How a lock that is due can be settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Writes {
    Taken,
    Refused,
    /// The slot is on its way to this server.
    Arriving,
    /// Another server has the slot.
    Elsewhere,
    /// The server asks for quiet.
    Paused,
    /// The server is a replica.
    Replica,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Server {
    locks: [Option<(Value, Deadline)>; KEYS.len()],
    pub(crate) fences: FenceClock,
    table: WaitTable<RequestId>,
    pub(crate) grace: Grace,
    /// For how long it has been away beside the time of its world: busy, or standing still.
    busy: Millis,
    stood_still: Millis,
    conns: Vec<Connection>,
    blocked: BTreeMap<RequestId, Blocked>,
    /// The id of the connection that comes next.
    next_id: u64,
    /// Told to nobody yet.
    pub(crate) effects: Vec<Effect>,
    /// Answers that have gone out to clients that waited.
    told: Vec<(Conn, Reply)>,
    /// Nobody is subscribed to any channel.
    pub(crate) deaf: bool,
    /// What has been published.
    pub(crate) messages: Vec<Message>,
    /// How many effects have been sent to replicas, and how many the one that there is has said to have.
    pub(crate) written: Offset,
    pub(crate) acked: Offset,
    /// How many effects each of the other replicas has said to have.
    pub(crate) more_acked: Vec<Offset>,
}

impl Server {
    pub(crate) fn new(conns: Conn) -> Self {
        Self {
            locks: [const { None }; KEYS.len()],
            fences: FenceClock::new(),
            table: WaitTable::new(),
            grace: Grace::new(),
            busy: 0,
            stood_still: 0,
            conns: (0..conns).map(|conn| Connection::new(u64::from(conn))).collect(),
            blocked: BTreeMap::new(),
            next_id: u64::from(conns),
            effects: Vec::new(),
            told: Vec::new(),
            deaf: false,
            messages: Vec::new(),
            written: 1,
            acked: 1,
            more_acked: Vec::new(),
        }
    }

    /// How far each replica is.
    fn acks(&self) -> Vec<Offset> {
        [&[self.acked], self.more_acked.as_slice()].concat()
    }

    fn moment(&self, now: Millis) -> Moment {
        let ran = now + self.busy;
        Moment { since_boot: ran + self.stood_still, ran }
    }

    /// Renumbers waiters and connections in the same order, so that servers that differ only in these numbers are equal. `cut_off`: no
    /// replica will ever acknowledge more.
    pub(crate) fn renumber(&mut self, cut_off: bool) {
        let (known, most) = (self.acked - 1, if cut_off { 2 } else { Offset::MAX });
        self.table.shift_offsets(known, most);
        (self.written, self.acked) = ((self.written - known).min(most), 1);
        let requests = self.table.renumber_requests();
        self.blocked = std::mem::take(&mut self.blocked)
            .into_iter()
            .map(|(request, blocked)| (requests[&request], blocked))
            .collect();
        let open = self.conns.iter().map(|conn| conn.id);
        let ids: BTreeMap<u64, u64> = open.chain(self.table.clients()).zip(0..).collect();
        // One that is in there twice has the later number: that is as good.
        let ids: BTreeMap<u64, u64> = ids.into_keys().zip(0..).collect();
        self.next_id = ids.len() as u64;
        for conn in &mut self.conns {
            conn.id = ids[&conn.id];
        }
        for blocked in self.blocked.values_mut() {
            blocked.id = ids.get(&blocked.id).copied().unwrap_or(u64::MAX);
        }
        self.table.renumber_clients(&ids);
    }
}

fn time(now: Millis) -> Now {
    Now { micros: now * 1000, start: now }
}
