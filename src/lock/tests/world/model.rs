//! All that may happen in a world, and what must be so in each.

use stateright::{Model, Property};

use super::{Clients, Fault, Kind, Site, Size, Who, World};
use crate::lock::Millis;
use crate::lock::tests::server::Conn;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::lock::tests) enum Action {
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
pub(in crate::lock::tests) const EXCLUSION: &str = "1: one owner inside its lease";

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
                if waits {
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
