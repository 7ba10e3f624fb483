//! A small world around `Server`: owners, connections, a clock, and a replica that takes over. All that may happen in it is
//! tried, in any order, by `worlds`.
//!
//! What owners believe is kept here, by what they were told alone, and compared with each other. So is what the guarantees
//! of `docs/design.md` say of each step.

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

/// Which server is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Primary,
    /// The old primary beside its successor.
    Old,
}

/// What must never be seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Fault {
    FenceNotAbove,
    /// Two holders have one slot, one has got another slot, or not the least that was free.
    WrongSlot,
    ByAStranger,
    NotTheFirst,
    FreeWithAQueue,
    /// An owner holds the lock, and still waits for it.
    WaitsForItself,
    ToNobody,
    /// A connection that was closed, or answered, is told something.
    ToldUnasked,
    /// A connection keeps a grant alive, and its lease ends before anything is due.
    NotRenewed,
    /// The server has ended a grant that its owner still counts on.
    Lost,
    /// A place in the queue is gone, and its owner was not told.
    PlaceLost,
    /// A holder has not heard that its grant is over, or that somebody waits for it.
    NotHeard,
    /// A grant holds the lock, and `LOCK.INFO` does not show it.
    NotShown,
    /// A connection keeps a grant alive, and its owner was not told so.
    KeptUntold,
}

/// What an owner knows of its grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Belief {
    fence: Fence,
    holds: u32,
    /// For how many there is room, as it asked.
    room: Room,
    /// The number that it was told last.
    slot: Option<Slot>,
    /// The lease is over after that. Where a connection keeps the grant alive, its owner counts on that connection, and not on the lease;
    /// where replicas confirm that, it counts on the lease that it was told or shown last.
    until: Deadline,
    /// The connection that keeps it alive.
    session: Option<Conn>,
    /// The session is with the old primary.
    old: bool,
}

/// What a holder has heard of its grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Hears {
    fence: Fence,
    /// It knows that it holds the lock.
    claimed: bool,
    /// Somebody waits.
    wanted: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct World {
    now: Millis,
    primary: Server,
    /// Until when it lives on.
    old: Option<(Server, Millis)>,
    /// The old primary has been away since before it was replaced.
    away: bool,
    replica: Option<Server>,
    on_the_way: Vec<Effect>,
    /// The owners that connections wait for.
    waiting: Vec<Option<(Who, Kind)>>,
    /// The owners that connections to the old primary wait for.
    waiting_old: Vec<Option<(Who, Kind)>>,
    /// Owners have replicas confirm what they ask for.
    confirms: bool,
    /// Somebody has just been told that replicas have not confirmed what it asked for.
    unconfirmed: bool,
    /// The owners that were told on a connection that it keeps their grant alive.
    sessions: Vec<BTreeSet<Who>>,
    /// The owners that were sent away from a connection on which they had asked for a session.
    sent_away: Vec<BTreeSet<Who>>,
    /// Those who wait, first come first.
    arrivals: Vec<Queued>,
    /// The owners that had places before the server was demoted, and have not been told that those are gone.
    to_be_sent_away: BTreeSet<Who>,
    /// The connections on which owners have asked last for a place.
    places: Vec<Option<Conn>>,
    /// The grants that places were given, and have not claimed.
    to_claim: BTreeSet<Fence>,
    /// The grants of which owners are to hear what becomes of them.
    hears: Vec<Option<Hears>>,
    beliefs: Vec<Option<Belief>>,
    /// The last grant that an owner gave back: what it is told of that one later it ignores.
    given_back: Vec<Option<Fence>>,
    /// The last grant, and whose it was.
    highest: Option<(Fence, Owner<'static>)>,
    /// The grants that nobody has been told of yet.
    untold: BTreeSet<Fence>,
    /// The last grants that the lock had. If the server stands still, they may come back.
    known: Vec<Fence>,
    /// The grant that an operator broke last.
    broken: Option<Fence>,
    /// The grants whose leases an operator has cut short last, and their ends then.
    cut: BTreeMap<Fence, Deadline>,
    /// The connections that an owner has lost, on which it had a session or asked for one, until the server knows.
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
        // A grace that began with its start is over.
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

    /// Whether an owner counts on its grant now. If not, it will look what has become of it.
    fn is_sure(&self, belief: &Belief) -> bool {
        !self.is_confirmed(belief) || Deadline::At(self.now) <= belief.until
    }

    /// Whether replicas confirm that a connection keeps a grant alive.
    fn is_confirmed(&self, belief: &Belief) -> bool {
        self.confirms && belief.session.is_some()
    }

    /// Those who believe to hold the lock now.
    fn all_beliefs(&self) -> impl Iterator<Item = &Belief> {
        self.beliefs.iter().flatten().filter(|belief| self.is_sure(belief))
    }

    /// How many believe to hold the lock now.
    fn believers(&self) -> usize {
        self.all_beliefs().count()
    }

    /// Whether those who believe to hold the lock have room for each other, and no two the same slot.
    fn bear_each_other(&self) -> bool {
        let count = self.believers();
        let bears = |belief: &Belief| belief.room.most().is_none_or(|most| count <= most as usize);
        let mut slots = BTreeSet::new();
        let mut is_first = |belief: &Belief| belief.slot.is_none_or(|slot| slots.insert(slot));
        self.all_beliefs().all(|belief| bears(belief) && is_first(belief))
    }

    /// What the replica has said of the stream: all that has come to it. After a failover, others have taken its place.
    fn note_acks(&mut self) {
        let on_the_way = if self.replica.is_some() { self.on_the_way.len() } else { 0 };
        self.primary.acked = self.primary.written - on_the_way as Offset;
    }

    /// Whether a connection can be used: it is open, and nobody waits on it. The server reads nothing more from one that it is
    /// not done with.
    fn is_free(&self, at: Role, conn: Conn) -> bool {
        if let (Role::Old, Some((old, _))) = (at, &self.old) {
            return self.waiting_old[usize::from(conn)].is_none() && !old.blocked().contains(&conn);
        }
        let blocked = self.waiting[usize::from(conn)].is_some() || self.primary.blocked().contains(&conn);
        !blocked && !self.primary.has_vanished(conn)
    }
}
