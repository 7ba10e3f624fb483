//! All actions that are possible in a world, and what must be true in each state.

use std::collections::BTreeSet;

use stateright::{Model, Property};

use super::super::server::{Conn, Server, Writes};
use super::super::soak;
use super::{Belief, Clients, Kind, Role, Size, Who, World};
use crate::lock::{Millis, Room};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Acquire {
        at: Role,
        conn: Conn,
        who: Who,
        lease: Millis,
        kind: Kind,
    },
    Release {
        at: Role,
        who: Who,
        all: bool,
    },
    Extend {
        at: Role,
        who: Who,
        lease: Millis,
    },
    Break,
    /// An operator shortens the lease to end now.
    Cut,
    /// The server finds that a connection has closed.
    Close(Conn),
    /// A client goes away, without the server's knowing it yet.
    Vanish(Conn),
    /// The server has to close a connection, and will do so at the end of its turn.
    Doom(Conn),
    /// An owner sends `LOCK.LEAVE`.
    Leave(Who),
    /// All subscribers come, or go.
    Deafen,
    /// An operator runs `CLIENT UNBLOCK`, with `ERROR` if `error` is true.
    Unblock {
        conn: Conn,
        error: bool,
    },
    /// The server does the work that is due.
    RunDue(Writes),
    /// The server sends answers, before it does any other work that is due.
    Answer,
    /// The old primary, which lives on beside its successor, does the work that is due.
    RunDueOld,
    /// The server frees the clients that it is done with.
    Free,
    /// A millisecond passes.
    Pass,
    /// Checks the state when time has stopped and all work that was due has been done.
    Look,
    /// The server is demoted, and promoted at once.
    Flip,
    /// The server is frozen for a millisecond, whatever is due.
    Freeze,
    /// The replica gets the next effect.
    Replicate,
    FailOver,
    /// The old primary comes back.
    ComeBack {
        busy: bool,
    },
}

/// The name of the guarantee that worlds with a failover test.
pub(crate) const EXCLUSION: &str = "1: owners inside their leases have room for each other";

impl Size {
    fn acquires(self, world: &World, at: Role, who: Who, actions: &mut Vec<Action>) {
        for &kind in self.kinds {
            // One idle connection is enough for the model, because they differ only in places.
            let free = (0..self.conns).filter(|&conn| world.is_free(at, conn));
            for conn in free.take(if kind.notified() { usize::MAX } else { 1 }) {
                if at == Role::Primary || !kind.waits() && !kind.notified() {
                    let ask = |&lease| Action::Acquire { at, conn, who, lease, kind };
                    actions.extend(self.leases.iter().map(ask));
                }
            }
        }
    }

    /// Adds the commands that an owner may send.
    fn wishes(self, world: &World, at: Role, who: Who, actions: &mut Vec<Action>) {
        let belief = world.believes(who);
        let clients = world.clients(self);
        if belief.is_none_or(|belief| belief.holds < self.holds) {
            self.acquires(world, at, who, actions);
        }
        // An owner that waits for an answer releases at most one hold, if it knows of any.
        if world.waiting.iter().chain(&world.waiting_old).flatten().any(|&(waits, _)| waits == who) {
            actions.extend(belief.map(|_| Action::Release { at, who, all: false }));
            return;
        }
        if at == Role::Primary && world.places[usize::from(who)].is_some() {
            actions.push(Action::Leave(who));
        }
        actions.push(Action::Release { at, who, all: false });
        if self.holds > 1 {
            actions.push(Action::Release { at, who, all: true });
        }
        let can_wait = self.confirm.is_none() || (0..self.conns).any(|conn| world.is_free(at, conn));
        // If replicas confirm an owner's session, the owner leaves the lease to the session.
        let leaves_it = |belief: Belief| belief.session.is_some() && self.confirm.is_some();
        let can_wait = can_wait && !belief.is_some_and(leaves_it);
        if can_wait && (belief.is_some() || clients == Clients::ExtendAnything) {
            actions.extend(self.leases.iter().map(|&lease| Action::Extend { at, who, lease }));
        }
    }

    /// Adds what the server may do by itself, and the passing of time.
    fn turns(self, world: &World, actions: &mut Vec<Action>) {
        let now = world.now;
        let happens = self.happens;
        let old = world.old.as_ref().filter(|_| !world.away);
        if old.is_some_and(|(old, _)| old.next_due().is_some_and(|at| at <= now)) {
            actions.push(Action::RunDueOld);
        } else if world.primary.next_due().is_some_and(|at| at <= now)
            || (0..self.conns).any(|conn| world.primary.is_doomed(conn))
        {
            if happens.arrives {
                actions.push(Action::RunDue(Writes::Arriving));
            } else {
                actions.push(Action::RunDue(Writes::Taken));
            }
            if happens.dooms {
                actions.push(Action::Answer);
            }
            if happens.refusals {
                actions.push(Action::RunDue(Writes::Refused));
            }
            if self.rules.late {
                actions.push(Action::Free);
            }
            if happens.freezes && now < self.horizon {
                actions.push(Action::Freeze);
            }
        } else {
            actions.push(if now < self.horizon { Action::Pass } else { Action::Look });
        }
    }

    /// Adds what may happen to connections.
    fn connections(self, world: &World, conn: Conn, actions: &mut Vec<Action>) {
        if self.happens.vanishes && !world.primary.has_vanished(conn) {
            actions.push(Action::Vanish(conn));
        }
        if !self.happens.vanishes || world.primary.has_vanished(conn) {
            actions.push(Action::Close(conn));
        }
        if self.happens.dooms && !world.primary.is_doomed(conn) {
            actions.push(Action::Doom(conn));
        }
        if self.happens.unblocks && world.waiting[usize::from(conn)].is_some() {
            actions.extend([false, true].map(|error| Action::Unblock { conn, error }));
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
        // After a fault, the model stops.
        if !world.faults.is_empty() || !world.have_room_for_each_other() {
            return;
        }
        self.turns(world, actions);
        let sites: &[Role] =
            if world.old.is_some() && !world.away { &[Role::Primary, Role::Old] } else { &[Role::Primary] };
        for &at in sites {
            for who in 0..self.owners {
                self.wishes(world, at, who, actions);
            }
        }
        if self.breaks {
            actions.push(Action::Break);
        }
        if self.happens.unheard {
            actions.push(Action::Deafen);
        }
        if self.happens.cuts {
            actions.push(Action::Cut);
        }
        // A demotion drops all places in one turn. If turns are slow, each sends one message, and there would be more and more.
        if self.happens.flips && world.primary.earlier() < soak(1, 2) && world.primary.unsent() < 2 {
            actions.push(Action::Flip);
        }
        for conn in 0..self.conns {
            self.connections(world, conn, actions);
        }
        if world.away {
            actions.extend([false, true].map(|busy| Action::ComeBack { busy }));
        }
        if let Some(failover) = self.failover.filter(|_| world.replica.is_some()) {
            if !world.on_the_way.is_empty() {
                actions.push(Action::Replicate);
            }
            if world.now < self.horizon && world.on_the_way.len() <= failover.lag {
                actions.push(Action::FailOver);
            }
        }
    }

    fn next_state(&self, world: &World, action: Action) -> Option<World> {
        let mut next = world.clone();
        next.unconfirmed = false;
        // A frozen server shows owners nothing.
        let serves = !matches!(action, Action::Freeze | Action::Replicate | Action::FailOver);
        if serves {
            next.see(*self);
        }
        match action {
            Action::Acquire { at, conn, who, lease, kind } => next.acquire(*self, at, conn, who, lease, kind),
            Action::Release { at, who, all } => next.release(*self, at, who, all),
            Action::Extend { at, who, lease } => next.extend(*self, at, who, lease),
            Action::Break => next.break_(*self),
            Action::Cut => next.cut(*self),
            Action::Close(conn) => next.close(*self, conn),
            Action::Vanish(conn) => next.vanish(conn),
            Action::Doom(conn) => next.doom(conn),
            Action::Leave(who) => next.leave(*self, who),
            Action::Deafen => next.primary.deaf = !next.primary.deaf,
            Action::Unblock { conn, error } => next.unblock(*self, conn, error),
            Action::RunDue(writes) => next.run_due(*self, writes),
            Action::Answer => next.end_turn(*self, Server::answer),
            Action::RunDueOld => next.run_due_old(*self),
            Action::Free => next.free(*self),
            Action::Pass => {
                next.look(*self);
                next.pass();
            }
            Action::Look => next.look(*self),
            Action::Flip => next.flip(*self),
            Action::Freeze => next.freeze(),
            Action::Replicate => {
                let effect = next.on_the_way.remove(0);
                next.replica.as_mut()?.apply(effect);
                next.note_acks();
            }
            Action::FailOver => next.fail_over(*self, self.failover?),
            Action::ComeBack { busy } => next.come_back(self.failover?, busy),
        }
        if serves {
            next.see(*self);
        }
        next.primary.check();
        next.primary.renumber(false);
        if let Some((old, _)) = &mut next.old {
            old.renumber(true);
        }
        (next != *world).then_some(next)
    }

    fn within_boundary(&self, world: &World) -> bool {
        // Within a millisecond, fences count the grants. Some grants end in the step that made them.
        let highest = world.highest.as_ref().map(|(fence, _)| *fence).max(world.primary.fences.last());
        let highest = highest.map(|fence| fence.granted_at() + 1 - world.now * 1000);
        let servers = world.old.iter().map(|(old, _)| old).chain([&world.primary]);
        let held = servers.flat_map(|server| server.holders(world.now));
        let mut holds = held.map(|held| held.grant.holds());
        // The server has to free clients sooner or later, so the model bounds the number that it has not freed.
        let unfreed = world.primary.unfreed() <= usize::from(self.conns);
        unfreed
            && highest.is_none_or(|grants| grants <= self.grants)
            && holds.all(|holds| holds <= self.holds)
            && self.failover.is_none_or(|failover| world.on_the_way.len() <= failover.lag)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut all: Vec<Property<Self>> = vec![
            Property::always(EXCLUSION, |_, world: &World| world.have_room_for_each_other()),
            Property::always("no fault", |_, world: &World| world.faults.is_empty()),
        ];
        // A world that is too small to reach these states proves nothing.
        if self.kinds.iter().any(|kind| kind.notified()) {
            all.push(Property::sometimes("a place is given a grant", |_, world: &World| {
                world.to_claim.iter().any(|fence| world.untold.contains(fence))
            }));
            all.push(Property::sometimes("a grant is claimed", |_, world: &World| {
                let claimed = |belief: &Belief| world.to_claim.contains(&belief.fence);
                world.beliefs.iter().flatten().any(claimed)
            }));
        }
        if self.kinds.contains(&Kind::Wait) {
            all.push(Property::sometimes("a waiter gets the lock", |_, world: &World| {
                !world.untold.is_empty()
            }));
            all.push(Property::sometimes("a grant is taken back", |_, world: &World| {
                !world.untold.is_empty() && world.waiting.iter().all(Option::is_none)
            }));
        }
        if self.kinds.iter().any(|kind| !kind.room().is_exclusive()) {
            all.push(Property::sometimes("two hold the lock", |_, world: &World| world.believers() == 2));
        }
        let rooms: BTreeSet<Room> = self.kinds.iter().map(|kind| kind.room()).collect();
        let least = |kind: &Kind| Some(kind.room()) == rooms.first().copied();
        if self.holds > 1 && rooms.len() > 1 && self.kinds.iter().any(|kind| kind.waits() && least(kind)) {
            all.push(Property::sometimes(
                "a holder waits to have its grant with less room",
                |_, world: &World| world.upgrades().next().is_some(),
            ));
        }
        if self.confirm.is_some() {
            all.push(Property::sometimes("an owner is told", |_, world: &World| world.believers() > 0));
            all.push(Property::sometimes("too few replicas", |_, world: &World| world.unconfirmed));
        }
        if self.happens.flips {
            all.push(Property::sometimes(
                "an earlier time is left when somebody holds the lock",
                |_, world: &World| world.primary.earlier() > 0 && world.believers() > 0,
            ));
        }
        if self.failover.is_some_and(|failover| failover.away) {
            all.push(Property::sometimes("an old primary comes back", |_, world: &World| {
                world.old.is_some() && !world.away
            }));
        }
        if self.failover.is_some() {
            all.push(Property::sometimes("a failover loses a grant", |size, world: &World| {
                world.has_failed_over(*size)
                    && world.primary.fences.last() < world.highest.as_ref().map(|(fence, _)| *fence)
            }));
        }
        all
    }
}
