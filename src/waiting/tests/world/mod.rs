//! A small world around `Server`: owners, connections, a clock, and a replica that takes over. `worlds` tries everything that may happen in
//! it, in any order.
//!
//! The world keeps the owners' beliefs, which come only from what they are told, and compares them with each other. It also checks after
//! each step what the guarantees of `docs/design.md` say about it.

mod beliefs;
mod model;
mod size;
mod steps;
mod watch;

use std::collections::{BTreeMap, BTreeSet};

use super::server::{Conn, Effect, Queued, Server};
use crate::lock::{Deadline, Fence, Millis, Owner, Room, Slot};
use crate::waiting::table::Offset;

pub(super) use model::EXCLUSION;
pub(super) use size::{Clients, Failover, Happens, Kind, Size, Who};

/// The server that is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Primary,
    /// The old primary, which lives on beside its successor.
    Old,
}

/// A state that must never occur.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Fault {
    FenceNotAbove,
    /// Two holders have the same slot, a holder has got another slot, or a slot that was not the least free one.
    WrongSlot,
    ByAStranger,
    NotTheFirst,
    FreeWithAQueue,
    /// An owner holds the lock, and still waits for it.
    WaitsForItself,
    ToNobody,
    /// A connection that was closed or answered is told something.
    ToldUnasked,
    /// A connection keeps a grant alive, but its lease ends before anything is due.
    NotRenewed,
    /// The server has ended a grant that its owner still counts on.
    Lost,
    /// A place in the queue is gone, but its owner was not told.
    PlaceLost,
    /// A holder has not heard that its grant is over, or that somebody waits for it.
    NotHeard,
    /// A grant holds the lock, but `LOCK.INFO` does not show it.
    NotShown,
    /// A connection keeps a grant alive, but the grant's owner was not told so.
    KeptUntold,
}

/// What an owner knows of its grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Belief {
    fence: Fence,
    holds: u32,
    /// The room that the owner asked for.
    room: Room,
    /// The slot that the owner was told last.
    slot: Option<Slot>,
    /// The end of the lease. If a connection keeps the grant alive, the owner counts on that connection, and not on the lease. If replicas
    /// confirm the session, the owner counts on the lease that it was told or shown last.
    until: Deadline,
    /// The connection that keeps the grant alive.
    session: Option<Conn>,
    /// Whether the session is on the old primary.
    old: bool,
}

/// What a holder has heard of its grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Hears {
    fence: Fence,
    /// Whether the holder knows that it holds the lock.
    claimed: bool,
    /// Whether the holder has heard that somebody waits.
    wanted: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct World {
    now: Millis,
    primary: Server,
    /// The old primary, and how long it lives on.
    old: Option<(Server, Millis)>,
    /// Whether the old primary has been away since before it was replaced.
    away: bool,
    replica: Option<Server>,
    on_the_way: Vec<Effect>,
    /// For each connection, the owner that waits on it, and its request.
    waiting: Vec<Option<(Who, Kind)>>,
    /// The same for connections to the old primary.
    waiting_old: Vec<Option<(Who, Kind)>>,
    /// Whether owners have replicas confirm what they ask for.
    confirms: bool,
    /// Whether a client has just been told that replicas have not confirmed its grant or extension.
    unconfirmed: bool,
    /// For each connection, the owners that were told on it that it keeps their grants alive.
    sessions: Vec<BTreeSet<Who>>,
    /// For each connection, the owners that were sent away from it after they had asked for a session.
    sent_away: Vec<BTreeSet<Who>>,
    /// The waiters in order of arrival.
    arrivals: Vec<Queued>,
    /// The owners that had places before the server was demoted, and have not been told that these are gone.
    to_be_sent_away: BTreeSet<Who>,
    /// For each owner, the connection on which it asked last for a place.
    places: Vec<Option<Conn>>,
    /// The unclaimed grants of places.
    to_claim: BTreeSet<Fence>,
    /// The grants about which owners are to hear.
    hears: Vec<Option<Hears>>,
    beliefs: Vec<Option<Belief>>,
    /// For each owner, the last grant that it released. It ignores what it is told of that grant later.
    given_back: Vec<Option<Fence>>,
    /// The latest grant, and its owner.
    highest: Option<(Fence, Owner<'static>)>,
    /// The grants of which nobody has been told yet.
    untold: BTreeSet<Fence>,
    /// The last grants of the lock. If the server stands still, they may come back.
    known: Vec<Fence>,
    /// The grant that an operator broke last.
    broken: Option<Fence>,
    /// The grants whose leases an operator has cut short last, and the new ends.
    cut: BTreeMap<Fence, Deadline>,
    /// For each owner, connections that it has lost, and on which it had a session or asked for one, until the server knows.
    lost: Vec<BTreeSet<Conn>>,
    faults: BTreeSet<Fault>,
}

fn owner(who: Who) -> Owner<'static> {
    const NAMES: [&[u8]; 3] = [b"a", b"b", b"c"];
    Owner::new(NAMES[usize::from(who)]).unwrap()
}

impl World {
    fn new(size: Size) -> Self {
        let mut primary = Server::new(size.conns);
        // A grace that began with the start is over.
        primary.promote(1 - size.rules.grace);
        Self {
            now: 1,
            primary,
            old: None,
            away: false,
            replica: size.failover.map(|_| Server::new(size.conns)),
            on_the_way: Vec::new(),
            waiting: vec![None; size.conns.into()],
            waiting_old: vec![None; size.conns.into()],
            confirms: size.confirm.is_some(),
            unconfirmed: false,
            sessions: vec![BTreeSet::new(); size.conns.into()],
            sent_away: vec![BTreeSet::new(); size.conns.into()],
            arrivals: Vec::new(),
            to_be_sent_away: BTreeSet::new(),
            places: vec![None; size.owners.into()],
            to_claim: BTreeSet::new(),
            hears: vec![None; size.owners.into()],
            beliefs: vec![None; size.owners.into()],
            given_back: vec![None; size.owners.into()],
            highest: None,
            untold: BTreeSet::new(),
            known: Vec::new(),
            broken: None,
            cut: BTreeMap::new(),
            lost: vec![BTreeSet::new(); size.owners.into()],
            faults: BTreeSet::new(),
        }
    }

    fn has(&self, fault: Fault) -> bool {
        self.faults.contains(&fault)
    }

    fn clients(&self, size: Size) -> Clients {
        size.failover.map_or(Clients::ExtendAnything, |failover| failover.clients)
    }

    fn has_failed_over(&self, size: Size) -> bool {
        size.failover.is_some() && self.replica.is_none()
    }

    fn server(&mut self, at: Role) -> &mut Server {
        match (at, &mut self.old) {
            (Role::Old, Some((old, _))) => old,
            _ => &mut self.primary,
        }
    }

    fn believes(&self, who: Who) -> Option<Belief> {
        self.beliefs[usize::from(who)].filter(|belief| self.is_sure(belief))
    }

    /// Whether an owner counts on its grant now. If not, it will check what has become of the grant.
    fn is_sure(&self, belief: &Belief) -> bool {
        !self.is_confirmed(belief) || Deadline::At(self.now) <= belief.until
    }

    /// Whether replicas confirm the session of this grant.
    fn is_confirmed(&self, belief: &Belief) -> bool {
        self.confirms && belief.session.is_some()
    }

    /// The beliefs of owners that believe to hold the lock now.
    fn all_beliefs(&self) -> impl Iterator<Item = &Belief> {
        self.beliefs.iter().flatten().filter(|belief| self.is_sure(belief))
    }

    /// How many owners believe to hold the lock now.
    fn believers(&self) -> usize {
        self.all_beliefs().count()
    }

    /// Whether the owners that believe to hold the lock have room for each other, and no two have the same slot.
    fn bear_each_other(&self) -> bool {
        let count = self.believers();
        let bears = |belief: &Belief| belief.room.most().is_none_or(|most| count <= most as usize);
        let mut slots = BTreeSet::new();
        let mut is_first = |belief: &Belief| belief.slot.is_none_or(|slot| slots.insert(slot));
        self.all_beliefs().all(|belief| bears(belief) && is_first(belief))
    }

    /// Has the replica acknowledge all effects that it has got. After a failover, other replicas have taken its place.
    fn note_acks(&mut self) {
        let on_the_way = if self.replica.is_some() { self.on_the_way.len() } else { 0 };
        self.primary.acked = self.primary.written - on_the_way as Offset;
    }

    /// Whether a connection can be used: it is open, and no owner waits on it. The server reads nothing more from a client that it is not
    /// done with.
    fn is_free(&self, at: Role, conn: Conn) -> bool {
        if let (Role::Old, Some((old, _))) = (at, &self.old) {
            return self.waiting_old[usize::from(conn)].is_none() && !old.blocked().contains(&conn);
        }
        let blocked = self.waiting[usize::from(conn)].is_some() || self.primary.blocked().contains(&conn);
        !blocked && !self.primary.has_vanished(conn)
    }
}
