//! A small world around `Server`: owners, connections, a clock, and a replica that takes over. `worlds` tries all possible actions in all
//! orders.
//!
//! The world keeps what each owner believes about its grant, from what the owner is told, and compares these beliefs with each other. After
//! each step, the world also checks the guarantees of `docs/design.md`.

mod beliefs;
mod model;
mod size;
mod steps;
mod watch;

use std::collections::{BTreeMap, BTreeSet};

use super::server::{Conn, Lock, Queued, Server};
use crate::encoding::Effect;
use crate::lock::{Deadline, Fence, Millis, Owner, Room, Slot};
use crate::waiting::replication::Offset;

pub(super) use model::EXCLUSION;
pub(super) use size::{Clients, Failover, Happens, Kind, Size, Who};

/// Which server a client talks to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Primary,
    /// The old primary, which lives on beside its successor.
    Old,
}

/// A violation of a guarantee.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Fault {
    FenceNotAbove,
    /// Two holders have the same slot, a holder has got another slot than before, or a new slot was not the least free slot.
    WrongSlot,
    ByAStranger,
    NotTheFirst,
    FreeWithAQueue,
    /// An owner holds the lock, but still waits for it.
    WaitsForItself,
    ToNobody,
    /// A connection that was closed or already answered gets an answer.
    ToldUnasked,
    /// A connection keeps a grant alive, but the lease ends before anything is due.
    NotRenewed,
    /// The server has ended a grant on which its owner still relies.
    Lost,
    /// A place in the queue is gone, but its owner was not told.
    PlaceLost,
    /// A holder was not told that its grant has ended, or that somebody waits for the lock.
    NotHeard,
    /// A grant holds the lock, but `LOCK.INFO` does not show it.
    NotShown,
    /// A connection keeps a grant alive, but the owner was not told of the session.
    KeptUntold,
}

/// What an owner believes about its grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Belief {
    fence: Fence,
    holds: u32,
    /// The room that the owner asked for.
    room: Room,
    /// The last slot that the owner was told.
    slot: Option<Slot>,
    /// The end of the lease. If there is a session, the owner relies on the session instead. If replicas confirm the session, the owner
    /// relies on the last lease that it was told or shown.
    until: Deadline,
    /// The connection that keeps the grant alive, if there is a session.
    session: Option<Conn>,
    /// Whether the session is on the old primary.
    old: bool,
}

/// What messages have told a holder about its grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Hears {
    fence: Fence,
    /// Whether the holder knows that it holds the lock.
    claimed: bool,
    /// Whether the holder was told that somebody waits.
    wanted: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct World {
    now: Millis,
    primary: Server,
    /// The old primary, and the time at which it dies.
    old: Option<(Server, Millis)>,
    /// Whether the old primary was away when it was replaced, and has not come back yet.
    away: bool,
    replica: Option<Server>,
    on_the_way: Vec<(Lock, Effect)>,
    /// For each connection, the owner that waits on it, and its request.
    waiting: Vec<Option<(Who, Kind)>>,
    /// For each connection to the old primary, the owner that waits on it, and its request.
    waiting_old: Vec<Option<(Who, Kind)>>,
    /// Whether owners use `SYNC`.
    confirms: bool,
    /// Whether the last step told a client that replicas have not confirmed its grant or extension.
    unconfirmed: bool,
    /// For each connection, the owners that were told that it keeps their grants alive.
    sessions: Vec<BTreeSet<Who>>,
    /// For each connection, the owners that asked on it for a session, and were then sent away.
    sent_away: Vec<BTreeSet<Who>>,
    /// The waiters in order of arrival.
    arrivals: Vec<Queued>,
    /// The owners whose places ended when the server was demoted, and that have not been told yet.
    to_be_sent_away: BTreeSet<Who>,
    /// For each owner with a place, the connection that last asked for the place.
    places: Vec<Option<Conn>>,
    /// The unclaimed grants of places.
    to_claim: BTreeSet<Fence>,
    /// For each owner, what messages have told it about its grant.
    hears: Vec<Option<Hears>>,
    beliefs: Vec<Option<Belief>>,
    /// For each owner, the last grant that it released. It ignores later answers about this grant.
    given_back: Vec<Option<Fence>>,
    /// The latest fence, and its owner.
    highest: Option<(Fence, Owner<'static>)>,
    /// The grants of which no client has been told yet.
    untold: BTreeSet<Fence>,
    /// The last grants of the lock, which may come back after a freeze.
    known: Vec<Fence>,
    /// The last grant that an operator broke.
    broken: Option<Fence>,
    /// The grants whose leases an operator has shortened, and the new ends.
    cut: BTreeMap<Fence, Deadline>,
    /// For each owner, the lost connections on which it had a session or asked for one, until the server knows of the loss.
    lost: Vec<BTreeSet<Conn>>,
    faults: BTreeSet<Fault>,
}

pub(crate) fn owner(who: Who) -> Owner<'static> {
    const NAMES: [&[u8]; 3] = [b"a", b"b", b"c"];
    Owner::new(NAMES[usize::from(who)]).unwrap()
}

impl World {
    fn new(size: Size) -> Self {
        let mut primary = Server::new(size.conns);
        // The grace after the start is over.
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

    pub(super) fn faults(&self) -> String {
        format!("{:?}", self.faults)
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

    /// Whether an owner relies on its grant now. If not, it will ask what has happened to the grant.
    fn is_sure(&self, belief: &Belief) -> bool {
        !self.is_confirmed(belief) || Deadline::At(self.now) <= belief.until
    }

    /// Whether replicas confirm the session of this grant.
    fn is_confirmed(&self, belief: &Belief) -> bool {
        self.confirms && belief.session.is_some()
    }

    /// Returns the beliefs of the owners that now believe that they hold the lock.
    fn all_beliefs(&self) -> impl Iterator<Item = &Belief> {
        self.beliefs.iter().flatten().filter(|belief| self.is_sure(belief))
    }

    /// Returns how many owners now believe that they hold the lock.
    fn believers(&self) -> usize {
        self.all_beliefs().count()
    }

    /// Whether the owners that believe that they hold the lock have room for each other, and different slots.
    fn have_room_for_each_other(&self) -> bool {
        let count = self.believers();
        let bears = |belief: &Belief| belief.room.most().is_none_or(|most| count <= most as usize);
        let mut slots = BTreeSet::new();
        let mut is_first = |belief: &Belief| belief.slot.is_none_or(|slot| slots.insert(slot));
        self.all_beliefs().all(|belief| bears(belief) && is_first(belief))
    }

    /// Makes the replica acknowledge all effects that it has got. After a failover, other replicas acknowledge all effects.
    fn note_acks(&mut self) {
        let on_the_way = if self.replica.is_some() { self.on_the_way.len() } else { 0 };
        self.primary.acked = self.primary.written - on_the_way as Offset;
    }

    /// Whether the client of a connection is gone, and the server has not closed the connection yet.
    fn is_gone(&self, conn: Conn) -> bool {
        self.primary.has_vanished(conn) || self.primary.is_doomed(conn)
    }

    /// Whether a connection can be used: it is open, no owner waits on it, and the server is done with its last wait.
    fn is_free(&self, at: Role, conn: Conn) -> bool {
        if let (Role::Old, Some((old, _))) = (at, &self.old) {
            return self.waiting_old[usize::from(conn)].is_none() && !old.blocked().contains(&conn);
        }
        let blocked = self.waiting[usize::from(conn)].is_some() || self.primary.blocked().contains(&conn);
        !blocked && !self.is_gone(conn)
    }
}
