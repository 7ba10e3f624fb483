//! A small world around `Server`: owners, connections, a clock, and a replica that takes over. All that may happen in it is
//! tried, in any order, by `worlds`.
//!
//! What owners believe is kept here, by what they were told alone, and compared with each other. So is what the guarantees
//! of `docs/design.md` say of each step.

use std::collections::BTreeSet;

use stateright::{Model, Property};

use super::server::{Conn, Effect, Reply, Rules, Server};
use crate::lock::{Ask, Deadline, Fence, Millis, Owner};

/// An owner, by number.
pub(super) type Who = u8;

/// How big a world is, and what may happen in it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size {
    pub(super) owners: Who,
    pub(super) conns: Conn,
    pub(super) leases: &'static [Millis],
    /// When time stops.
    pub(super) horizon: Millis,
    pub(super) kinds: &'static [Kind],
    /// There are at most so many in each millisecond.
    pub(super) grants: i64,
    /// No owner asks for more holds than that.
    pub(super) holds: u32,
    pub(super) breaks: bool,
    pub(super) failover: Option<Failover>,
    pub(super) rules: Rules,
}

/// A primary that dies, and its replica.
#[derive(Clone, Copy, Debug)]
pub(super) struct Failover {
    pub(super) grace: Millis,
    /// For how long the old primary goes on beside its successor.
    pub(super) lives_on: Millis,
    /// How many effects can be on their way to the replica, and get lost.
    pub(super) lag: usize,
    pub(super) clients: Clients,
}

/// How far owners go by what they are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Clients {
    /// They extend only what they were told to hold, and have not given back; and 0 holds left is the end of it.
    Strict,
    /// They also extend what they do not believe to hold.
    ExtendAnything,
    /// They count their holds themselves, as several threads do of which only one sees the reply.
    CountThemselves,
}

/// How an owner asks for the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    Plain,
    Once,
    /// Waits without limit.
    Wait,
    /// Waits for 1 ms.
    WaitBriefly,
    Session,
    WaitWithSession,
}

/// Which server is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Site {
    Primary,
    /// The old primary beside its successor.
    Old,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Acquire {
        at: Site,
        conn: Conn,
        who: Who,
        lease: Millis,
        kind: Kind,
    },
    Release {
        at: Site,
        who: Who,
        all: bool,
    },
    Extend {
        at: Site,
        who: Who,
        lease: Millis,
    },
    Break,
    Close(Conn),
    /// The server does what is due by itself.
    Ring,
    /// A millisecond goes by.
    Pass,
    /// The replica gets the next effect.
    Replicate,
    FailOver,
}

/// The guarantee that the worlds with a failover put to the test.
pub(super) const EXCLUSION: &str = "1: one owner inside its lease";

/// What must never be seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Fault {
    FenceNotAbove,
    ByAStranger,
    NotTheFirst,
    FreeWithAQueue,
    ToNobody,
}

/// What an owner knows of its grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Belief {
    fence: Fence,
    holds: u32,
    /// The lease is over after that.
    until: Deadline,
    /// The connection that keeps it alive.
    session: Option<Conn>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct World {
    now: Millis,
    primary: Server,
    /// Until when it lives on.
    old: Option<(Server, Millis)>,
    replica: Option<Server>,
    on_the_way: Vec<Effect>,
    /// The owners that connections wait for.
    waiting: Vec<Option<(Who, Kind)>>,
    /// Those who wait, first come first.
    arrivals: Vec<Conn>,
    beliefs: Vec<Option<Belief>>,
    highest: Option<Fence>,
    /// A grant that nobody has been told of yet.
    untold: Option<Fence>,
    /// The grant that an operator broke last.
    broken: Option<Fence>,
    faults: BTreeSet<Fault>,
}

fn owner(who: Who) -> Owner<'static> {
    const NAMES: [&[u8]; 3] = [b"a", b"b", b"c"];
    Owner::new(NAMES[usize::from(who)]).unwrap()
}

impl Kind {
    fn waits(self) -> bool {
        matches!(self, Self::Wait | Self::WaitBriefly | Self::WaitWithSession)
    }

    fn ask(self, who: Who, lease: Millis) -> (Ask<'static>, Option<Millis>) {
        let session = matches!(self, Self::Session | Self::WaitWithSession);
        let ask = Ask { owner: owner(who), lease, max_hold: None, once: self == Self::Once, session };
        let block = match self {
            Self::Plain | Self::Once | Self::Session => None,
            Self::Wait | Self::WaitWithSession => Some(0),
            Self::WaitBriefly => Some(1),
        };
        (ask, block)
    }
}

impl World {
    fn new(size: Size) -> Self {
        Self {
            now: 1,
            primary: Server::new(),
            old: None,
            replica: size.failover.map(|_| Server::new()),
            on_the_way: Vec::new(),
            waiting: vec![None; size.conns.into()],
            arrivals: Vec::new(),
            beliefs: vec![None; size.owners.into()],
            highest: None,
            untold: None,
            broken: None,
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

    fn server(&mut self, at: Site) -> &mut Server {
        match (at, &mut self.old) {
            (Site::Old, Some((old, _))) => old,
            _ => &mut self.primary,
        }
    }

    fn believes(&self, who: Who) -> Option<Belief> {
        self.beliefs[usize::from(who)]
    }

    /// Who believes to hold the lock now.
    fn believers(&self) -> usize {
        self.beliefs.iter().flatten().count()
    }

    /// A client is told of its grant.
    fn told(&mut self, at: Site, who: Who, kind: Kind, reply: Reply) {
        let Reply::Granted { fence, deadline, .. } = reply else { return };
        if self.untold == Some(fence) {
            self.untold = None;
        }
        if Some(fence) <= self.broken {
            return;
        }
        let known = self.believes(who).filter(|belief| belief.fence == fence);
        // By its own count: another connection's hold may not have been told yet.
        let holds = known.map_or(0, |belief| belief.holds);
        let holds = if kind == Kind::Once { holds.max(1) } else { holds + 1 };
        let session = self.server(at).session();
        let until = known.map_or(deadline, |belief| belief.until.max(deadline));
        self.beliefs[usize::from(who)] = Some(Belief { fence, holds, until, session });
    }

    /// Has a server do something, and looks at what became of the lock.
    fn step<T>(&mut self, size: Size, at: Site, body: impl FnOnce(&mut Server, Rules, Millis) -> T) -> T {
        let now = self.now;
        let server = self.server(at);
        let queued = server.queued();
        let before = server.held(now).map(|held| held.grant.fence());
        let result = body(server, size.rules, now);
        let after = server.held(now).map(|held| (held.grant.fence(), held.grant.owner().into_owned()));
        let effects = std::mem::take(&mut server.effects);
        if at == Site::Primary && self.replica.is_some() {
            self.on_the_way.extend(effects);
        }
        if let Some((fence, holder)) = after.filter(|(fence, _)| before != Some(*fence)) {
            if self.highest.is_some_and(|highest| fence <= highest) {
                self.faults.insert(Fault::FenceNotAbove);
            }
            self.highest = self.highest.max(Some(fence));
            self.untold = Some(fence);
            // The first to come of those who wait, by our own list.
            let first = self.arrivals.iter().find(|&conn| queued.contains(conn));
            if let Some(&first) = first.filter(|_| at == Site::Primary) {
                let next = self.waiting[usize::from(first)].map(|(who, _)| owner(who));
                if next != Some(holder) {
                    self.faults.insert(Fault::NotTheFirst);
                }
            }
        }
        result
    }

    /// A step by an owner: it must not touch another's grant.
    fn step_of<T>(
        &mut self,
        size: Size,
        at: Site,
        who: Who,
        body: impl FnOnce(&mut Server, Rules, Millis) -> T,
    ) -> T {
        let now = self.now;
        let before = self.server(at).clone();
        let result = self.step(size, at, body);
        let after = self.server(at).held(now);
        if let Some(held) = before.held(now).filter(|held| held.grant.owner() != owner(who)) {
            let same =
                after.is_some_and(|after| *after.grant == *held.grant && after.deadline >= held.deadline);
            // The step may be the first to find out that the grant's client has gone away, or to renew a session's lease.
            if !same && !before.is_unsettled() {
                self.faults.insert(Fault::ByAStranger);
            }
        }
        result
    }

    fn acquire(&mut self, size: Size, at: Site, conn: Conn, who: Who, lease: Millis, kind: Kind) {
        let (ask, block) = kind.ask(who, lease);
        let reply = self.step(size, at, |server, rules, now| server.acquire(rules, now, conn, &ask, block));
        match reply {
            Reply::Waits => {
                self.waiting[usize::from(conn)] = Some((who, kind));
                self.arrivals.push(conn);
            }
            Reply::Granted { .. } => self.told(at, who, kind, reply),
            Reply::Null | Reply::Grace | Reply::TooManyHolds => {}
        }
    }

    fn release(&mut self, size: Size, at: Site, who: Who, all: bool) {
        let left = self
            .step_of(size, at, who, |server, rules, now| server.release(rules, now, &owner(who), None, all));
        let thought = self.believes(who).map_or(0, |belief| belief.holds);
        let holds = match left {
            None => 0,
            Some(0) if self.clients(size) != Clients::CountThemselves => 0,
            Some(_) if all => 0,
            Some(_) => thought.saturating_sub(1),
        };
        let belief = self.believes(who).filter(|_| holds > 0);
        self.beliefs[usize::from(who)] = belief.map(|belief| Belief { holds, ..belief });
    }

    fn extend(&mut self, size: Size, at: Site, who: Who, lease: Millis) {
        let now = self.now;
        let extended = self
            .step_of(size, at, who, |server, rules, now| server.extend(rules, now, &owner(who), None, lease));
        let held = self.server(at).held(now).filter(|held| held.grant.owner() == owner(who));
        let held = held.map(|held| held.grant.fence());
        let belief = self.believes(who);
        self.beliefs[usize::from(who)] = match (extended, held) {
            (Some(until), Some(fence)) => {
                let holds = belief.map_or(1, |belief| belief.holds);
                Some(Belief { fence, holds, until, session: belief.and_then(|belief| belief.session) })
            }
            // Not now.
            (None, Some(_)) => belief,
            (_, None) => None,
        };
    }

    fn break_(&mut self, size: Size) {
        let before = self.primary.held(self.now).map(|held| held.grant.fence());
        if self.step(size, Site::Primary, |server, rules, now| server.break_(rules, now, None)) {
            // The operator's way: it is for him to see to the owner.
            self.broken = before;
            for belief in &mut self.beliefs {
                *belief = belief.filter(|belief| Some(belief.fence) != before);
            }
        }
    }

    fn close(&mut self, size: Size, conn: Conn) {
        self.waiting[usize::from(conn)] = None;
        self.arrivals.retain(|&waits| waits != conn);
        for belief in &mut self.beliefs {
            *belief = belief.filter(|belief| belief.session != Some(conn));
        }
        self.step(size, Site::Primary, |server, _, now| server.close(conn, now));
    }

    fn ring(&mut self, size: Size) {
        for (conn, reply) in self.step(size, Site::Primary, |server, rules, now| server.ring(rules, now)) {
            self.arrivals.retain(|&waits| waits != conn);
            match self.waiting[usize::from(conn)].take() {
                Some((who, kind)) => self.told(Site::Primary, who, kind, reply),
                None => _ = self.faults.insert(Fault::ToNobody),
            }
        }
        if self.primary.blocked().iter().any(|&conn| self.waiting[usize::from(conn)].is_none()) {
            self.faults.insert(Fault::ToNobody);
        }
    }

    /// All that was due has been done: what must be so then.
    fn look(&mut self) {
        let held = self.primary.held(self.now).map(|held| held.grant.fence());
        if held.is_none() && !self.primary.queued().is_empty() && !self.primary.grants_nothing(self.now) {
            self.faults.insert(Fault::FreeWithAQueue);
        }
        if held.is_some() && held == self.untold {
            self.faults.insert(Fault::ToNobody);
        }
    }

    fn pass(&mut self) {
        self.now += 1;
        let now = Deadline::At(self.now);
        for belief in &mut self.beliefs {
            *belief = belief.filter(|belief| belief.session.is_some() || now <= belief.until);
        }
        self.old.take_if(|(_, ends)| *ends <= self.now);
    }

    fn fail_over(&mut self, failover: Failover) {
        let Some(mut replica) = self.replica.take() else { return };
        self.on_the_way.clear();
        // It takes some time to see that a primary is dead.
        self.pass();
        replica.promote(self.now + failover.grace);
        let old = std::mem::replace(&mut self.primary, replica);
        if failover.lives_on > 0 {
            self.old = Some((old, self.now + failover.lives_on));
        }
        self.untold = None;
        self.waiting.fill(None);
        self.arrivals.clear();
    }
}

impl Size {
    fn acquires(self, world: &World, at: Site, who: Who, kinds: &[Kind], actions: &mut Vec<Action>) {
        // Any idle connection will do: they are all alike.
        let idle = (0..self.conns).find(|&conn| world.waiting[usize::from(conn)].is_none());
        let Some(conn) = idle else { return };
        for &kind in kinds.iter().filter(|kind| self.kinds.contains(kind)) {
            if at == Site::Primary || !kind.waits() {
                actions.extend(self.leases.iter().map(|&lease| Action::Acquire {
                    at,
                    conn,
                    who,
                    lease,
                    kind,
                }));
            }
        }
    }
}

impl Model for Size {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        vec![World::new(*self)]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        // Where a fault has been found, nothing more is to be learnt.
        if !world.faults.is_empty() || world.believers() > 1 {
            return;
        }
        let now = world.now;
        let due = world.primary.next_due().is_some_and(|at| at <= now);
        if due {
            actions.push(Action::Ring);
        } else if now < self.horizon {
            actions.push(Action::Pass);
        }
        let sites: &[Site] = if world.old.is_some() { &[Site::Primary, Site::Old] } else { &[Site::Primary] };
        for &at in sites {
            for who in 0..self.owners {
                let belief = world.believes(who);
                // An owner that waits for an answer asks again at most, or gives back one of the holds that it knows of: by
                // what the answer tells it will go afterwards, though the answer may be older.
                let waits = world.waiting.iter().flatten().any(|&(waits, _)| waits == who);
                if waits || (world.untold.is_some() && world.primary.holder(now) == Some(owner(who))) {
                    self.acquires(world, at, who, &[Kind::Plain, Kind::Wait], actions);
                    actions.extend(belief.map(|_| Action::Release { at, who, all: false }));
                    continue;
                }
                if belief.is_none_or(|belief| belief.holds < self.holds) {
                    self.acquires(world, at, who, self.kinds, actions);
                }
                actions.push(Action::Release { at, who, all: false });
                if self.holds > 1 {
                    actions.push(Action::Release { at, who, all: true });
                }
                if belief.is_some() || world.clients(*self) == Clients::ExtendAnything {
                    actions.extend(self.leases.iter().map(|&lease| Action::Extend { at, who, lease }));
                }
            }
        }
        if self.breaks {
            actions.push(Action::Break);
        }
        actions.extend((0..self.conns).map(Action::Close));
        if let Some(failover) = self.failover.filter(|_| world.replica.is_some()) {
            if !world.on_the_way.is_empty() {
                actions.push(Action::Replicate);
            }
            if now < self.horizon && world.on_the_way.len() <= failover.lag {
                actions.push(Action::FailOver);
            }
        }
    }

    fn next_state(&self, world: &World, action: Action) -> Option<World> {
        let mut next = world.clone();
        match action {
            Action::Acquire { at, conn, who, lease, kind } => next.acquire(*self, at, conn, who, lease, kind),
            Action::Release { at, who, all } => next.release(*self, at, who, all),
            Action::Extend { at, who, lease } => next.extend(*self, at, who, lease),
            Action::Break => next.break_(*self),
            Action::Close(conn) => next.close(*self, conn),
            Action::Ring => next.ring(*self),
            Action::Pass => {
                next.look();
                next.pass();
            }
            Action::Replicate => {
                let effect = next.on_the_way.remove(0);
                next.replica.as_mut()?.apply(effect);
            }
            Action::FailOver => next.fail_over(self.failover?),
        }
        next.primary.renumber();
        (next != *world).then_some(next)
    }

    fn within_boundary(&self, world: &World) -> bool {
        // Fences count the grants of one millisecond.
        let grants = world.highest.map_or(0, |highest| (highest.granted_at() + 1 - world.now * 1000).max(0));
        let servers = world.old.iter().map(|(old, _)| old).chain([&world.primary]);
        let mut holds = servers.filter_map(|server| Some(server.held(world.now)?.grant.holds()));
        grants <= self.grants
            && holds.all(|holds| holds <= self.holds)
            && self.failover.is_none_or(|failover| world.on_the_way.len() <= failover.lag)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut all: Vec<Property<Self>> = vec![
            Property::always(EXCLUSION, |_, world: &World| world.believers() <= 1),
            Property::always("2: fences rise", |_, world: &World| !world.has(Fault::FenceNotAbove)),
            Property::always("3: only the owner", |_, world: &World| !world.has(Fault::ByAStranger)),
            Property::always("4: first come, first served", |_, world: &World| {
                !world.has(Fault::NotTheFirst)
            }),
            Property::always("5: no lost wake-up", |_, world: &World| !world.has(Fault::FreeWithAQueue)),
            Property::always("6: never to one who went away", |_, world: &World| !world.has(Fault::ToNobody)),
        ];
        // A world that is too small to show that proves nothing.
        if self.kinds.contains(&Kind::Wait) {
            all.push(Property::sometimes("a waiter gets the lock", |_, world: &World| {
                world.untold.is_some()
            }));
            all.push(Property::sometimes("a grant is taken back", |_, world: &World| {
                world.untold.is_some() && world.waiting.iter().all(Option::is_none)
            }));
        }
        if self.failover.is_some() {
            all.push(Property::sometimes("a failover loses a grant", |size, world: &World| {
                world.has_failed_over(*size) && world.primary.fences.last() < world.highest
            }));
        }
        all
    }
}
