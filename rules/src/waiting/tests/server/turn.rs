//! Runs steps on the small server.

use std::ops::DerefMut;

use super::{KEYS, Lock, Reply, Rules, Server, Writes, at, time};
use crate::encoding::Effect;
use crate::lock::{Deadline, Fence, Grant, LONGEST_LEASE, Limits, Micros, Millis, Now, Value};
use crate::waiting::replication::Offset;
use crate::waiting::{self, Answer, Effects, Env, Grants, Host, Site, Table};
use crate::waiting::{
    Budget, Deferral, GraceLeft, GraceLength, Holder, LockId, Message, Replicas, RequestId, RequestedLock,
    RequestedLocks, Settled, holders,
};

pub(super) struct Turn<'a> {
    pub(super) server: &'a mut Server,
    pub(super) rules: Rules,
    pub(super) now: Millis,
    pub(super) writes: Writes,
    used: Micros,
    /// Whether replicas were asked for an acknowledgement.
    asked: bool,
}

impl Server {
    pub(super) fn turn(&mut self, rules: Rules, now: Millis) -> Turn<'_> {
        self.table.begin_turn();
        self.table.budget = if rules.slow { Budget::least() } else { Budget::new() };
        Turn { server: self, rules, now, writes: Writes::Taken, used: 0, asked: false }
    }
}

impl Turn<'_> {
    /// Runs a step on one lock.
    pub(super) fn step_on<R>(
        &mut self,
        lock: Lock,
        body: impl FnOnce(&mut Env<'_, RequestId>, &mut Site<'_>) -> R,
    ) -> R {
        self.step(&[lock], |env, sites| body(env, &mut sites[0]))
    }

    /// Runs a step on these locks, and then does its effects.
    pub(super) fn step<R>(
        &mut self,
        numbers: &[Lock],
        body: impl FnOnce(&mut Env<'_, RequestId>, &mut [Site<'_>]) -> R,
    ) -> R {
        numbers.iter().for_each(|lock| self.expire(*lock));
        let (limits, grace) = (self.limits(), self.grace_left());
        let Server { locks, effects, fences, table, conns, .. } = &mut *self.server;
        let before: Vec<_> = numbers.iter().map(|lock| locks[*lock].clone()).collect();
        let take = |lock: &Lock| {
            let held = locks[*lock].take();
            let (value, until) = held.map_or((None, Deadline::Never), |(value, until)| (Some(value), until));
            (*lock, Grants::new(value, until), Effects::new())
        };
        let mut open: Vec<(Lock, Grants, Effects)> = numbers.iter().map(take).collect();
        let is_open = |client| conns.iter().any(|conn| conn.id == client);
        let mut env = Env { table, fences, limits, grace, now: time(self.now), is_open: &is_open };
        let sites = open.iter_mut().map(|(lock, grants, done)| Site::new(at(*lock), grants, done));
        let result = body(&mut env, &mut sites.collect::<Vec<_>>());
        for ((lock, Grants { value, until, .. }, done), before) in open.into_iter().zip(before) {
            let known = effects.len();
            let held = |fence| {
                let held = value.as_ref()?.with_fence(fence, || until)?;
                Some((held.grant.clone(), held.deadline))
            };
            effects.extend(done.into_iter().filter_map(|effect| {
                let effect = match effect {
                    waiting::Effect::Alone(fence) | waiting::Effect::Lease(fence) => {
                        held(fence).map(|(grant, until)| Effect::Alone(grant, until))?
                    }
                    waiting::Effect::Among(fence) => {
                        held(fence).map(|(grant, until)| Effect::Among(grant, until))?
                    }
                    waiting::Effect::Ended(fence) => Effect::Ended(fence),
                    waiting::Effect::Lapsed(now) => Effect::Lapsed(now),
                    waiting::Effect::Free => Effect::Free,
                    waiting::Effect::Event(_) | waiting::Effect::Lapse(..) => return None,
                };
                Some((lock, effect))
            }));
            locks[lock] = value.map(|value| (value, until));
            // The effects lead replicas from the state before to the state after.
            let mut replica = Server::new(0);
            replica.locks[lock] = before;
            effects.iter().skip(known).for_each(|effect| replica.apply(effect.clone()));
            assert_eq!(shown(&replica.locks[lock]), shown(&locks[lock]), "{:?}", &effects[known..]);
        }
        result
    }

    pub(super) fn grace_left(&mut self) -> GraceLeft {
        if self.rules.grace == 0 {
            return GraceLeft::default();
        }
        let length = GraceLength { grants: self.rules.grace, longest_lease: self.rules.max_lease };
        let moment = self.server.moment(self.now);
        self.server.grace.left(moment, length)
    }

    pub(super) fn expire(&mut self, lock: Lock) {
        if self.server.locks[lock].take_if(|(_, until)| *until < Deadline::At(self.now)).is_some() {
            self.server.effects.push((lock, Effect::Free));
            self.server.table.touched(at(lock));
        }
    }

    /// Returns what the module answers to a client that was unblocked.
    pub(super) fn reply(&mut self, request: RequestId) -> Option<Reply> {
        let waiting::ToldAnswer { answer, locks, .. } = waiting::tell(self, request, time(self.now))?;
        Some(match answer {
            Answer::Granted { until } => match &locks {
                RequestedLocks::One(RequestedLock { got: Some(got), .. }) => Reply::granted(*got, until),
                locks => Reply::All(locks.all().iter().filter_map(|lock| lock.got).collect(), until),
            },
            Answer::NoReentry(why) => Reply::NoReentry(why),
            Answer::Deadlock => Reply::Deadlock,
            Answer::TimedOut | Answer::WrongType | Answer::Gone => Reply::Null,
            Answer::Extended { until } => Reply::Extended(until),
            Answer::NotHeld => Reply::NotHeld,
            Answer::GrantUnconfirmed | Answer::ExtensionUnconfirmed => Reply::NoReplicas,
        })
    }

    pub(super) fn finished(&mut self, request: RequestId, gone: bool, arrived: impl FnOnce(bool) -> bool) {
        let told = self.server.table.told_connection(request).filter(|_| gone);
        if told.is_some_and(|(_, unblocked)| !arrived(unblocked)) {
            self.server.table.depart(request);
        }
        _ = self.server.table.freed(request);
    }

    pub(super) fn run_due(&mut self) {
        let again = waiting::take_up_confirmed(self);
        // The next acknowledgement is another reason to go on.
        let is_rest = self.server.table.replication.next_confirmed(&self.server.acks_in_order()).is_some();
        assert!(!is_rest || again.is_some() || self.asked);
        waiting::run_due(self, time(self.now));
    }

    pub(super) fn send_due(&mut self) {
        let now = time(self.now);
        waiting::send_due(self, || now);
    }

    pub(super) fn closed(&mut self, client: u64) {
        self.server.table.closed(client, true);
    }

    pub(super) fn depart(&mut self, request: RequestId) {
        self.server.table.depart(request);
    }
}

/// The grants of a key with the ends of their leases, and the end of its TTL.
fn shown(lock: &Option<(Value, Deadline)>) -> Option<(Vec<(&Grant, Deadline)>, Deadline)> {
    let (value, until) = lock.as_ref()?;
    Some((value.all(*until).map(|held| (held.grant, held.deadline)).collect(), *until))
}

impl Host for Turn<'_> {
    type Client = RequestId;

    fn table(&mut self) -> impl DerefMut<Target = Table<RequestId>> {
        &mut self.server.table
    }

    fn limits(&mut self) -> Limits {
        Limits {
            max_lease: self.rules.max_lease.unwrap_or(LONGEST_LEASE),
            max_hold: self.rules.max_hold,
            expiry_slack: 0,
            max_holders: self.rules.max_holders.most().unwrap_or(0),
            may_lengthen: self.grace_left().leases == 0,
        }
    }

    fn used(&mut self) -> Micros {
        self.used += if self.rules.slow { Micros::from(u32::MAX) } else { 1 };
        self.used
    }

    fn deferral(&mut self, now: Now) -> Deferral {
        match self.writes {
            Writes::Paused => Deferral::Until(now.millis() + 1),
            Writes::Replica => Deferral::Replica,
            _ => Deferral::None,
        }
    }

    fn settle(&mut self, waiter: Option<RequestId>, ids: &[LockId]) -> Settled {
        match self.writes {
            Writes::Taken => (),
            Writes::Refused | Writes::Paused | Writes::Replica => return Settled::Refused,
            Writes::Elsewhere => return Settled::Elsewhere,
            Writes::Arriving => return Settled::Arriving,
        }
        let locks: Vec<Lock> = ids.iter().map(number).collect();
        match waiter {
            Some(request) => self.step(&locks, |env, sites| waiting::try_waiter(env, sites, request)),
            None => self.step_on(locks[0], waiting::settle),
        }
        Settled::Done
    }

    fn settle_arriving(&mut self, id: &LockId) {
        self.step_on(number(id), waiting::settle);
    }

    fn alive_with(&mut self, id: &LockId, fence: Fence, now: Millis) -> Option<(u32, Deadline)> {
        let lock = number(id);
        self.expire(lock);
        let (value, until) = self.server.locks[lock].as_ref()?;
        value.alive_with(fence, *until, now)
    }

    fn holders(&mut self, id: &LockId, now: Millis, most: usize) -> Vec<Holder> {
        let Some((value, until)) = &self.server.locks[number(id)] else { return Vec::new() };
        holders(Some(value), *until, now, most)
    }

    fn unblock(&mut self, request: RequestId) {
        self.answer(request);
    }

    fn replicas(&mut self) -> Replicas {
        // The effects of this step will be written after the step.
        let unwritten = self.server.effects.len() as Offset;
        Replicas { written: self.server.written + unwritten, replicas: self.server.acks() }
    }

    fn ask_replicas(&mut self) -> bool {
        self.asked = true;
        true
    }

    fn publish(&mut self, message: &Message) -> bool {
        self.server.messages.push(message.clone());
        !self.server.deaf && !self.server.unheard.contains(&*message.channel.address)
    }
}

pub(super) fn number(id: &LockId) -> Lock {
    KEYS.iter().position(|key| **key == *id.key).unwrap()
}
