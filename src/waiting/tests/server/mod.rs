//! A server in small around the rules of `waiting`: a few keys, connections, and what servers do to a module. It decides
//! nothing. Time comes in; nothing is random.
//!
//! - `turn`: the seam (`Around`, `Site`, `Host`, `Caller`), as `serving` has it for real.
//! - `commands`: what clients ask for.
//! - `clients`: blocked clients and connections, from the answer to the server's last word on them.
//! - `keyspace`: the key, and what replicas are told of it.

mod clients;
mod commands;
mod keyspace;
mod turn;

use std::collections::BTreeMap;

use crate::lock::{Deadline, Fence, FenceClock, Got, Grant, Held, Millis, Now, Owner, Room, Value};
use crate::waiting::{At, Circle, Grace, GraceLeft, Message, Moment, State, Ticket};
use clients::{Blocked, Connection};

/// A connection, by number. One that closes is followed by another of the same number.
pub(crate) type Conn = u8;

/// A lock, by number. The first is the one that is meant where none is named.
pub(crate) type Lock = usize;

pub(crate) const KEYS: [&[u8]; 3] = [b"k", b"l", b"m"];

const AT: At<'static> = at(0);

const fn at(lock: Lock) -> At<'static> {
    At { db: 0, key: KEYS[lock] }
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
    /// A turn is over as soon as a little of each has been done.
    pub(crate) slow: bool,
    /// The most holders of the lock.
    pub(crate) max_holders: Room,
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
    };
}

/// What a client is told.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Reply {
    Granted {
        fence: Fence,
        holds: u32,
        deadline: Deadline,
    },
    /// Several locks, and the end of the lease that ends first.
    All(Vec<Got>, Deadline),
    Null,
    Grace,
    Waits,
    Queued,
    TooManyHolds,
    Deadlock,
    /// The wait would never end.
    Circle(Circle),
    /// An operator sent it away with an error.
    Unblocked,
}

impl Reply {
    fn granted(got: Got, deadline: Deadline) -> Self {
        Self::Granted { fence: got.fence, holds: got.holds, deadline }
    }
}

/// Who stands in the queue.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Stands {
    Blocked(Conn),
    Notified(Owner<'static>),
}

/// The same, and what is asked for.
pub(crate) struct Asked {
    pub(crate) stands: Stands,
    pub(crate) owner: Owner<'static>,
    pub(crate) room: Room,
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
    state: State<Ticket>,
    grace: Grace,
    conns: Vec<Connection>,
    blocked: BTreeMap<Ticket, Blocked>,
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
}

impl Server {
    pub(crate) fn new(conns: Conn) -> Self {
        Self {
            locks: [const { None }; KEYS.len()],
            fences: FenceClock::new(),
            state: State::new(),
            grace: Grace::new(),
            conns: (0..conns).map(|conn| Connection::new(u64::from(conn))).collect(),
            blocked: BTreeMap::new(),
            next_id: u64::from(conns),
            effects: Vec::new(),
            told: Vec::new(),
            deaf: false,
            messages: Vec::new(),
        }
    }

    /// A replica becomes a primary.
    pub(crate) fn promote(&mut self, now: Millis) {
        self.grace.begin(moment(now));
    }

    /// A lease that is over ends the grant: the server's own expiry looks.
    pub(crate) fn expire(&mut self, rules: Rules, now: Millis) {
        self.turn(rules, now).expire();
    }

    /// The database is flushed.
    pub(crate) fn flush(&mut self) {
        self.locks.fill(None);
        self.state.touched_db(Some(AT.db));
    }

    /// A primary becomes a replica.
    pub(crate) fn demote(&mut self, rules: Rules, now: Millis) {
        self.state.stand_down();
        self.ring(rules, now, Writes::Replica);
    }

    /// How long this server grants nothing new.
    pub(crate) fn grace_left(&mut self, rules: Rules, now: Millis) -> GraceLeft {
        self.turn(rules, now).grace_left()
    }

    /// An operator has the lease end with this millisecond.
    pub(crate) fn cut(&mut self, now: Millis) {
        if let Some((_, deadline)) =
            self.locks[0].as_mut().filter(|(_, deadline)| *deadline > Deadline::At(now))
        {
            *deadline = Deadline::At(now);
            self.effects.push(Effect::Lease(*deadline));
            self.state.look_through(AT, 0);
        }
    }

    /// A client writes something else over the key, and deletes that when all who waited have got their answer.
    pub(crate) fn overwrite(&mut self, rules: Rules, now: Millis) -> Vec<(Conn, Reply)> {
        self.turn(rules, now).expire();
        self.locks[0] = None;
        self.state.overwritten(AT);
        self.ring(rules, now, Writes::Taken)
    }

    /// Another lock is put in the place of this one, as by `RENAME`.
    pub(crate) fn replace(&mut self, now: Millis, owner: Owner<'_>, lease: Millis) {
        let fence = self.fences.next(now * 1000);
        let grant = fence.map(|fence| Grant::new(owner, fence, 1, None, now));
        self.locks[0] = grant.map(|grant| (Value::One(grant), Deadline::after(now, lease)));
        self.state.touched(AT);
    }

    /// The slot moves to another server, and comes back as it went: nothing is known of it then but the key.
    pub(crate) fn move_away(&mut self, rules: Rules, now: Millis) -> Vec<(Conn, Reply)> {
        let lock = self.locks[0].take();
        self.state.alarm_at(AT, 0);
        let told = self.ring(rules, now, Writes::Elsewhere);
        self.locks[0] = lock;
        told
    }

    /// The grants, within their leases, the oldest first.
    pub(crate) fn holders(&self, now: Millis) -> Vec<Held<'_>> {
        self.holders_of(0, now)
    }

    /// The same of that lock.
    pub(crate) fn holders_of(&self, lock: Lock, now: Millis) -> Vec<Held<'_>> {
        let Some((value, until)) = self.locks[lock].as_ref().filter(|(_, until)| Deadline::At(now) <= *until)
        else {
            return Vec::new();
        };
        value.alive(*until, now).collect()
    }

    /// The grants, also those whose leases are over and that nobody has looked at since.
    pub(crate) fn all_held(&self) -> Vec<Held<'_>> {
        self.all_held_of(0)
    }

    /// The same of that lock.
    pub(crate) fn all_held_of(&self, lock: Lock) -> Vec<Held<'_>> {
        self.locks[lock].iter().flat_map(|(value, until)| value.all(*until)).collect()
    }

    /// Whether a grant is still to be claimed, or to be told.
    pub(crate) fn is_unclaimed(&self, lock: Lock, fence: Fence) -> bool {
        self.state.given_fences(at(lock)).contains(&fence)
    }

    /// Whether somebody is still to be told something.
    pub(crate) fn has_answers(&self) -> bool {
        self.state.has_answered()
    }

    /// Whether the server knows who waits.
    pub(crate) fn is_index_right(&self) -> bool {
        self.state.is_index_right()
    }

    /// A client deletes that key.
    pub(crate) fn delete(&mut self, lock: Lock) {
        self.locks[lock] = None;
        self.state.touched(at(lock));
    }

    /// A client writes something else over that key, and deletes that when all who waited have been sent away.
    pub(crate) fn overwrite_one(&mut self, lock: Lock) {
        self.locks[lock] = None;
        self.state.overwritten(at(lock));
    }

    /// The oldest grant within its lease.
    pub(crate) fn held(&self, now: Millis) -> Option<Held<'_>> {
        self.holders(now).first().copied()
    }

    /// Whether something has happened that the next look at the lock sets right: a waiter or a session is gone.
    pub(crate) fn is_unsettled(&self) -> bool {
        self.state.is_unsettled(AT)
    }

    /// Who stands in the queue, first come first.
    pub(crate) fn queued(&self) -> Vec<Stands> {
        self.asks().into_iter().map(|asked| asked.stands).collect()
    }

    /// The same, and what they ask for.
    pub(crate) fn asks(&self) -> Vec<Asked> {
        self.asks_of(0)
    }

    /// The same for that lock.
    pub(crate) fn asks_of(&self, lock: Lock) -> Vec<Asked> {
        let queue = self.state.tickets_of(at(lock)).into_iter();
        queue
            .map(|(ticket, owner, room)| {
                let stands = match self.blocked.get(&ticket) {
                    Some(blocked) => Stands::Blocked(blocked.conn),
                    None => Stands::Notified(owner.clone()),
                };
                Asked { stands, owner, room }
            })
            .collect()
    }

    /// The connections that the server has not freed yet.
    pub(crate) fn blocked(&self) -> Vec<Conn> {
        self.blocked.values().filter(|blocked| !blocked.gone).map(|blocked| blocked.conn).collect()
    }

    /// How many blocked clients the server has not freed yet, those that are gone among them.
    pub(crate) fn unfreed(&self) -> usize {
        self.blocked.len()
    }

    /// The grants of waiters that the server is not done with.
    pub(crate) fn given(&self) -> Vec<Fence> {
        self.state.given_fences(AT)
    }

    /// The connection that keeps the grant with that fence alive.
    pub(crate) fn session(&self, fence: Fence) -> Option<Conn> {
        self.session_of(0, fence)
    }

    /// The same of that lock.
    pub(crate) fn session_of(&self, lock: Lock, fence: Fence) -> Option<Conn> {
        let session = self.state.session(at(lock), fence).filter(|session| !session.over)?;
        (0..).zip(&self.conns).find(|(_, conn)| conn.id == session.client).map(|(number, _)| number)
    }

    /// When the session of the grant with that fence is to be renewed.
    pub(crate) fn renews_at(&self, fence: Fence) -> Option<Millis> {
        let session = self.state.session(AT, fence).filter(|session| !session.over)?;
        Some(session.renew_at)
    }

    /// When something is to be done by itself; 0: now.
    pub(crate) fn next_due(&self) -> Option<Millis> {
        let closes = self.conns.iter().any(|conn| conn.vanished);
        let frees = self.blocked.values().any(|blocked| blocked.done);
        if closes || frees || self.state.has_answered() { Some(0) } else { self.state.next_due() }
    }

    /// Gives waiters and connections other numbers, in the same order: two servers that differ in no more are the same.
    pub(crate) fn renumber(&mut self) {
        let tickets = self.state.renumber_tickets();
        self.blocked = std::mem::take(&mut self.blocked)
            .into_iter()
            .map(|(ticket, blocked)| (tickets[&ticket], blocked))
            .collect();
        let open = self.conns.iter().map(|conn| conn.id);
        let ids: BTreeMap<u64, u64> = open.chain(self.state.clients()).zip(0..).collect();
        // One that is in there twice has the later number: that is as good.
        let ids: BTreeMap<u64, u64> = ids.into_keys().zip(0..).collect();
        self.next_id = ids.len() as u64;
        for conn in &mut self.conns {
            conn.id = ids[&conn.id];
        }
        for blocked in self.blocked.values_mut() {
            blocked.id = ids.get(&blocked.id).copied().unwrap_or(u64::MAX);
        }
        self.state.renumber_clients(&ids);
    }
}

fn moment(now: Millis) -> Moment {
    // It never stands still.
    Moment { since_boot: now, ran: now }
}

fn time(now: Millis) -> Now {
    Now { micros: now * 1000, start: now }
}
