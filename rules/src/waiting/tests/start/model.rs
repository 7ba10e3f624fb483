//! All actions that are possible for these clients and their server.

use std::collections::BTreeSet;

use stateright::{Model, Property};

use super::super::server::{Conn, Lock, Rules, Server, Writes};
use super::client::{Belief, Breach, Client, Mail, State, Wish, mail, owner};
use crate::encoding::Effect;
use crate::lock::{Fence, Held, Millis, Owner};

pub(super) const ALONE: &str = "nobody works on what another has";
pub(super) const NOTHING_STAYS: &str = "nothing stays behind";

#[derive(Clone, Copy, Debug)]
pub(super) struct Size {
    pub(super) clients: Conn,
    /// The number of acquires of each client.
    pub(super) acquires: u8,
    /// The most clients that may hold the lock.
    pub(super) room: u32,
    /// The time at which the clock of the world stops.
    pub(super) horizon: Millis,
    /// Whether an operator breaks the lock.
    pub(super) breaks: bool,
    /// Whether connections close, so that the command or the answer on its way is lost.
    pub(super) closes: bool,
    pub(super) failover: bool,
    pub(super) breach: Option<Breach>,
    pub(super) rules: Rules,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct World {
    now: Millis,
    primary: Server,
    replica: Option<Server>,
    on_the_way: Vec<(Lock, Effect)>,
    clients: Vec<Client>,
    /// Messages on their way, each with its client and the number of the client's acquire.
    mail: BTreeSet<(Conn, u8, Mail)>,
    /// The grants that an operator has broken. Their owners may still believe in these grants, but the operator has to see to that.
    broken: BTreeSet<Fence>,
    /// Whether, in the last step, work began at a message, and whether an extension made the lease longer.
    began: bool,
    extended: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Begin(Conn, Wish),
    /// The server runs a client's command, or gives up the client's place or grant.
    Serve(Conn),
    /// The client reads the answer to its command.
    Read(Conn),
    Hear(Conn, u8, Mail),
    Close(Conn),
    /// The server has to close a connection, and will do so at the end of its turn.
    Doom(Conn),
    Break,
    RunDue,
    Pass,
    Replicate,
    FailOver,
}

impl World {
    pub(super) fn new(size: Size) -> Self {
        let mut primary = Server::new(size.clients);
        primary.promote(1 - size.rules.grace);
        Self {
            now: 1,
            primary,
            replica: size.failover.then(|| Server::new(size.clients)),
            on_the_way: Vec::new(),
            clients: (0..size.clients).map(Client::new).collect(),
            mail: BTreeSet::new(),
            broken: BTreeSet::new(),
            began: false,
            extended: false,
        }
    }

    fn client(&mut self, who: Conn) -> &mut Client {
        &mut self.clients[usize::from(who)]
    }

    /// Returns the arrival of each message that is on its way, as an action.
    pub(super) fn mail(&self) -> impl Iterator<Item = Action> {
        self.mail.iter().map(|(who, acquire, mail)| Action::Hear(*who, *acquire, *mail))
    }

    /// Takes these actions, one after the other.
    pub(super) fn all(&mut self, size: Size, actions: &[Action]) {
        actions.iter().for_each(|action| self.take(size, *action));
    }

    fn take(&mut self, size: Size, action: Action) {
        let (now, breach, rules) = (self.now, size.breach, size.rules);
        match action {
            Action::Begin(who, wish) => self.client(who).begin(wish, now),
            Action::Serve(who) => {
                let Self { clients, primary, .. } = self;
                clients[usize::from(who)].serve(primary, rules, size.room, breach, now);
            }
            Action::Read(who) => {
                let before = self.client(who).state;
                self.client(who).read(breach, now);
                let after = self.client(who).state;
                self.extended = matches!((before, after), (State::Works(before), State::Works(after)) if before.until < after.until);
            }
            Action::Hear(who, acquire, mail) => {
                self.mail.remove(&(who, acquire, mail));
                let waited = matches!(self.client(who).state, State::Waits { .. });
                self.client(who).hear(mail, breach, now);
                self.began = waited && matches!(self.client(who).state, State::Works(_));
            }
            Action::Close(who) => {
                self.client(who).sent = None;
                self.primary.close(rules, now, who);
            }
            Action::Doom(who) => {
                self.client(who).sent = None;
                self.primary.doom(who);
            }
            Action::Break => {
                let held = self.primary.holders(now).into_iter().map(|held| held.grant.fence());
                self.broken = held.collect();
                self.primary.break_(rules, now, None);
            }
            Action::RunDue => _ = self.primary.run_due(rules, now, Writes::Taken),
            Action::Pass => self.pass(),
            Action::Replicate => {
                let effect = self.on_the_way.remove(0);
                self.replica.iter_mut().for_each(|replica| replica.apply(effect.clone()));
            }
            Action::FailOver => self.fail_over(),
        }
        self.deliver(size);
    }

    /// Puts the server's messages, and its effects for the replica, on their way. Drops messages for which no client waits any more.
    fn deliver(&mut self, size: Size) {
        let effects = std::mem::take(&mut self.primary.effects);
        self.on_the_way.extend(effects.into_iter().filter(|_| self.replica.is_some()));
        for message in std::mem::take(&mut self.primary.messages) {
            let to = self.clients.iter().find(|client| client.owner() == message.owner);
            let mail = to.and_then(|to| Some((to.who, to.acquires, mail(message.kind, size.rules)?)));
            self.mail.extend(mail);
        }
        let clients = &self.clients;
        self.mail.retain(|(who, acquire, mail)| {
            let client = &clients[usize::from(*who)];
            let hears = match (client.state, mail) {
                (State::Waits { .. }, _) => true,
                (State::Works(belief), Mail::Lost(fence)) => belief.fence == *fence,
                _ => false,
            };
            hears && *acquire == client.acquires
        });
        self.primary.check();
        self.primary.renumber(false);
    }

    fn pass(&mut self) {
        self.now += 1;
        let now = self.now;
        self.clients.iter_mut().for_each(|client| client.look_at_the_clock(now));
    }

    /// The primary dies, which is noticed only after some time. Its answers and messages are still on their way, and commands to it reach
    /// the new primary.
    fn fail_over(&mut self) {
        let Some(mut replica) = self.replica.take() else { return };
        self.on_the_way.clear();
        self.pass();
        replica.promote(self.now);
        self.primary = replica;
    }

    fn believers(&self) -> impl Iterator<Item = (&Client, Belief)> {
        self.clients.iter().filter_map(|client| match client.state {
            State::Works(belief) if !self.broken.contains(&belief.fence) => Some((client, belief)),
            _ => None,
        })
    }

    /// Whether each client that works has room beside all other clients that the server believes to be holders.
    pub(super) fn keeps_clients_apart(&self, room: u32) -> bool {
        let holders = self.primary.holders(self.now);
        self.believers().all(|(client, belief)| {
            let owner = client.owner();
            // After a failover, the server may not know of a release, so a grant that nobody wants does not count.
            let has = |held: &&Held<'_>| self.replica.is_some() || self.wants(&held.grant.owner());
            let others = holders.iter().filter(|held| held.grant.owner() != owner);
            let others: Vec<_> = others.filter(has).collect();
            let apart = others.iter().all(|held| room == 1 || held.grant.slot() != belief.slot);
            let works =
                |other: &Belief| belief.fence != other.fence && (room == 1 || belief.slot == other.slot);
            let alone = !self.believers().any(|(_, other)| works(&other));
            others.len() < room as usize && apart && alone
        })
    }

    fn wants(&self, owner: &Owner<'_>) -> bool {
        let gives_up = |state| matches!(state, State::Idle | State::Leaves(_) | State::Releases);
        self.clients.iter().any(|client| client.owner() == *owner && !gives_up(client.state))
    }

    /// Whether the server has no place or grant of a client that has given up.
    fn is_clean(&self) -> bool {
        let (queued, holders) = (self.primary.asks(), self.primary.holders(self.now));
        let knows = |who, acquire| {
            let owner = owner(who, acquire);
            queued.iter().any(|asked| asked.owner == owner)
                || holders.iter().any(|held| held.grant.owner() == owner)
        };
        self.clients.iter().all(|client| {
            let over = if client.state == State::Idle { client.acquires } else { client.acquires - 1 };
            !(1..=over).any(|acquire| knows(client.who, acquire))
        })
    }
}

impl Model for Size {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        vec![World::new(*self)]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        for client in &world.clients {
            let who = client.who;
            let wishes = client.wishes(world.now, self.acquires).into_iter();
            actions.extend(wishes.map(|wish| Action::Begin(who, wish)));
            let is_doomed = world.primary.is_doomed(who);
            if client.is_to_serve() {
                actions.extend((!is_doomed).then_some(Action::Serve(who)));
            } else if client.sent.is_some() {
                actions.push(Action::Read(who));
            }
            if self.closes && !matches!(client.state, State::Idle | State::Works(_)) {
                actions.push(Action::Close(who));
                actions.extend((!is_doomed).then_some(Action::Doom(who)));
            }
        }
        actions.extend(world.mail());
        if world.primary.next_due().is_some_and(|at| at <= world.now) {
            actions.push(Action::RunDue);
        } else if world.now < self.horizon {
            actions.push(Action::Pass);
        }
        if self.breaks && world.broken.is_empty() {
            actions.push(Action::Break);
        }
        if world.replica.is_some() && world.now < self.horizon {
            actions.push(Action::FailOver);
            if !world.on_the_way.is_empty() {
                actions.push(Action::Replicate);
            }
        }
    }

    fn next_state(&self, world: &World, action: Action) -> Option<World> {
        let mut next = world.clone();
        (next.began, next.extended) = (false, false);
        next.take(*self, action);
        (next != *world).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(ALONE, |size: &Self, world: &World| world.keeps_clients_apart(size.room)),
            // After a failover, the new primary may not know that clients have given up.
            Property::always(NOTHING_STAYS, |size: &Self, world: &World| size.failover || world.is_clean()),
            // A world that is too small to reach these states proves nothing.
            Property::sometimes("work begins at a message", |_, world: &World| world.began),
            Property::sometimes("it is claimed behind the work", |_, world: &World| world.extended),
        ]
    }
}
