//! Implements the traits of `access` for the small server, as `serving` does for a real server.

use super::{Conn, KEYS, Lock, Reply, Rules, Server, Writes, at, time};
use crate::encoding::Effect;
use crate::lock::{Deadline, Fence, Grant, GrantChange, LONGEST_LEASE, Limits, Micros, Millis, Now, Value};
use crate::waiting::table::Offset;
use crate::waiting::{
    self, Answer, Budget, Caller, Deferral, Environment, GraceLeft, GraceLength, Holder, Host, LockAccess,
    LockEvent, LockId, LocksAccess, Message, MessageKind, Replicas, RequestId, RequestedLock, RequestedLocks,
    Settled, WaitLimits, WaitTable,
};

/// One turn of the server's event loop.
pub(super) struct Turn<'a> {
    pub(super) server: &'a mut Server,
    pub(super) rules: Rules,
    pub(super) now: Millis,
    pub(super) writes: Writes,
    /// The lock that is open.
    pub(super) lock: Lock,
    used: Micros,
    budget: Budget,
    busy: [bool; KEYS.len()],
    changed: [bool; KEYS.len()],
}

/// A turn with several locks open.
pub(super) struct Turns<'a> {
    turn: Turn<'a>,
    locks: &'a [Lock],
}

impl Server {
    pub(super) fn turn(&mut self, rules: Rules, now: Millis) -> Turn<'_> {
        Turn {
            server: self,
            rules,
            now,
            writes: Writes::Taken,
            lock: 0,
            used: 0,
            budget: if rules.slow { Budget::least() } else { Budget::new() },
            busy: [false; KEYS.len()],
            changed: [false; KEYS.len()],
        }
    }

    /// Opens these locks. Lapsed grants end first.
    pub(super) fn turns<'a>(&'a mut self, rules: Rules, now: Millis, locks: &'a [Lock]) -> Turns<'a> {
        let mut turn = self.turn(rules, now);
        for lock in locks {
            turn.lock = *lock;
            turn.expire();
        }
        Turns { turn, locks }
    }
}

impl<'a> LocksAccess for Turns<'a> {
    const SEVERAL: bool = true;
    type One = Turn<'a>;

    type Each<T> = Vec<T>;

    fn try_each<T, E>(&mut self, mut body: impl FnMut(&mut Turn<'a>) -> Result<T, E>) -> Result<Vec<T>, E> {
        (0..self.locks.len()).map(|number| body(self.lock(number))).collect()
    }

    fn try_with<T, U, E>(
        &mut self,
        each: &Vec<T>,
        mut body: impl FnMut(&mut Turn<'a>, &T) -> Result<U, E>,
    ) -> Result<Vec<U>, E> {
        assert_eq!(each.len(), self.locks.len());
        each.iter().enumerate().map(|(number, of_it)| body(self.lock(number), of_it)).collect()
    }

    fn all<T>(each: &Vec<T>) -> &[T] {
        each
    }

    fn lock(&mut self, number: usize) -> &mut Turn<'a> {
        self.turn.lock = self.locks[number];
        &mut self.turn
    }
}

impl Turn<'_> {
    pub(super) fn grace_left(&mut self) -> GraceLeft {
        if self.rules.grace == 0 {
            return GraceLeft::default();
        }
        let length = GraceLength { grants: self.rules.grace, longest_lease: self.rules.max_lease };
        let moment = self.server.moment(self.now);
        self.server.grace.left(moment, length)
    }

    /// Whether a grant is in the lock's key, or may be restored, and does not end with the next look at the lock because the connection of
    /// its session has closed. Whoever is told of a grant can rely on this.
    pub(super) fn goes_on(&self, lock: Lock, fence: Fence) -> bool {
        let Server { locks, table, .. } = &*self.server;
        let held =
            locks[lock].iter().flat_map(|(value, until)| value.all(*until)).map(|held| held.grant.clone());
        let is_there = held.chain(table.locks.kept_expired(at(lock))).any(|grant| grant.fence() == fence);
        let is_over = table.session(at(lock), fence).is_some_and(|session| session.over);
        is_there && (!is_over || table.has_successor(at(lock), fence))
    }

    /// Returns what the module answers to a client that was unblocked.
    pub(super) fn reply(&mut self, request: RequestId) -> Option<Reply> {
        let told = waiting::tell(self, request, time(self.now))?;
        if let Answer::Granted { until } = told.answer
            && until >= Deadline::At(self.now)
        {
            let goes_on = |lock: &RequestedLock| self.goes_on(number(&lock.id), lock.fence().unwrap());
            assert!(told.locks.all().iter().all(goes_on), "{:?}", told.locks);
        }
        Some(match told.answer {
            Answer::Granted { until } => match &told.locks {
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
        waiting::finished(self, request, gone, |_, unblocked| arrived(unblocked));
        self.server.table.freed(request);
    }

    pub(super) fn run_due(&mut self) {
        waiting::confirm(self);
        waiting::run_due(self, time(self.now));
    }

    pub(super) fn send_due(&mut self) {
        let now = time(self.now);
        waiting::send_due(self, || now);
    }

    pub(super) fn closed(&mut self, client: u64) {
        waiting::closed(self, client, || true);
    }

    pub(super) fn depart(&mut self, request: RequestId) {
        self.server.table.with_table_of(request, |table| table.depart(request));
    }

    /// Notes an effect on the open lock.
    fn effect(&mut self, effect: Effect) {
        self.server.effects.push((self.lock, effect));
    }

    /// Deletes the lock if all its leases have ended, as a server does when the key is used.
    pub(super) fn expire(&mut self) {
        if let Some((value, until)) =
            self.server.locks[self.lock].take_if(|(_, until)| *until < Deadline::At(self.now))
        {
            self.effect(Effect::Free);
            // A real server makes these calls when it removes an expired lock.
            self.server.table.locks.recheck_by(at(self.lock), self.now);
            for held in value.all(until) {
                waiting::outlives(self, at(self.lock), held.grant, time(self.now));
            }
        }
    }
}

impl Environment for Turn<'_> {
    type Client = RequestId;

    fn table<R>(&mut self, body: impl FnOnce(&mut WaitTable<RequestId>) -> R) -> R {
        body(&mut self.server.table)
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

    fn is_open(&self, client: u64) -> bool {
        self.server.conns.iter().any(|conn| conn.id == client)
    }

    fn budget<R>(&mut self, body: impl FnOnce(&mut Budget) -> R) -> R {
        body(&mut self.budget)
    }
}

impl LockAccess for Turn<'_> {
    type Key = &'static [u8];

    fn db(&self) -> i32 {
        at(self.lock).db
    }

    fn key(&self) -> &'static [u8] {
        at(self.lock).key
    }

    fn value(&self) -> Option<&Value> {
        self.server.locks[self.lock].as_ref().map(|(value, _)| value)
    }

    fn deadline(&self) -> Deadline {
        self.server.locks[self.lock].as_ref().map_or(Deadline::Never, |(_, until)| *until)
    }

    fn give(&mut self, grant: Grant, until: Deadline) {
        self.changed[self.lock] = true;
        self.effect(Effect::Alone(grant.clone(), until));
        self.server.locks[self.lock] = Some((Value::One(grant), until));
    }

    fn add(&mut self, grant: Grant, until: Deadline) {
        self.changed[self.lock] = true;
        self.effect(Effect::Among(grant.clone(), until));
        self.server.put(self.lock, grant, until);
    }

    fn update(&mut self, fence: Fence, change: GrantChange<'_>, until: Deadline) {
        let Some((value, old)) = &mut self.server.locks[self.lock] else { return };
        let Some(held) = value.with_fence(fence, || *old) else { return };
        if held.grant.is_already(change) && held.deadline == until {
            return;
        }
        let alone = value.is_one();
        *old = value.update(fence, change, until, *old);
        let changed = value.with_fence(fence, || *old).map(|held| held.grant.clone());
        let effect = if alone { Effect::Alone } else { Effect::Among };
        if let Some(grant) = changed {
            self.effect(effect(grant, until));
        }
    }

    fn end(&mut self, fence: Fence, _why: LockEvent) {
        self.changed[self.lock] = true;
        self.effect(Effect::Ended(fence));
        self.server.end(self.lock, fence);
    }

    fn end_lapsed(&mut self, now: Millis, most: usize) -> Vec<Fence> {
        self.changed[self.lock] = true;
        let lapsed = self.server.end_lapsed(self.lock, now, most);
        assert_eq!(lapsed.len(), most, "all that are to be ended are over");
        match self.value().is_some_and(|value| value.lapsed(self.deadline(), now).next().is_some()) {
            true => lapsed.iter().for_each(|fence| self.effect(Effect::Ended(*fence))),
            false => self.effect(Effect::Lapsed(now)),
        }
        lapsed
    }

    fn free(&mut self) {
        self.changed[self.lock] = true;
        self.server.locks[self.lock] = None;
        self.effect(Effect::Free);
    }

    fn note(&mut self, _note: LockEvent) {}

    fn next_fence(&mut self, now: Now) -> Option<Fence> {
        self.server.fences.next(now.micros)
    }

    fn grace(&mut self) -> GraceLeft {
        self.grace_left()
    }

    fn changed(&self) -> bool {
        self.changed[self.lock]
    }

    fn most_unclaimed(&self) -> u32 {
        if self.rules.slow { 1 } else { 32 }
    }

    /// A lock that is not idle counts as busy until the turn is over, as on a real server.
    fn idle(&mut self) -> bool {
        self.busy[self.lock] |= !self.server.table.locks.is_idle(at(self.lock));
        !self.busy[self.lock]
    }
}

impl Host for Turn<'_> {
    fn deferral(&mut self, now: Now) -> Deferral {
        match self.writes {
            Writes::Paused => Deferral::Until(now.millis() + 1),
            Writes::Replica => Deferral::Replica,
            _ => Deferral::None,
        }
    }

    fn used(&mut self) -> Micros {
        // Each call takes time, so that a turn ends however little it does.
        self.used += if self.rules.slow { Micros::from(u32::MAX) } else { 1 };
        self.used
    }

    fn settle(&mut self, waiter: Option<RequestId>, ids: &[LockId]) -> Settled {
        match (self.writes, waiter, ids) {
            (Writes::Taken, None, [id]) => self.settle_arriving(id),
            (Writes::Taken, Some(request), ids) => {
                let locks: Vec<Lock> = ids.iter().map(number).collect();
                let mut turns = self.server.turns(self.rules, self.now, &locks);
                waiting::settle_together(&mut turns, request, time(self.now));
            }
            (Writes::Taken, None, _) => panic!("several locks without a waiter"),
            (Writes::Refused | Writes::Paused | Writes::Replica, ..) => return Settled::Refused,
            (Writes::Elsewhere, ..) => return Settled::Elsewhere,
            (Writes::Arriving, ..) => return Settled::Arriving,
        }
        Settled::Done
    }

    fn settle_arriving(&mut self, place: &LockId) {
        self.busy = [false; KEYS.len()];
        self.lock = number(place);
        self.expire();
        waiting::settle(self, time(self.now));
    }

    fn alive_with(&mut self, place: &LockId, fence: Fence, now: Millis) -> Option<(u32, Deadline)> {
        self.lock = number(place);
        self.expire();
        let (value, until) = self.server.locks[self.lock].as_ref()?;
        value.alive_with(fence, *until, now)
    }

    fn unblock(&mut self, request: RequestId) {
        self.answer(request);
    }

    fn publish(&mut self, message: &Message) -> bool {
        if let MessageKind::Granted(fence) | MessageKind::Start { fence, .. } = message.kind {
            assert!((0..KEYS.len()).any(|lock| self.goes_on(lock, fence)), "{message:?}");
        }
        self.server.messages.push(message.clone());
        !self.server.deaf && !self.server.unheard.contains(&*message.channel.address)
    }

    fn replicas(&mut self) -> Replicas {
        // The effects of this step will be written after the step.
        let unwritten = self.server.effects.len() as Offset;
        Replicas { written: self.server.written + unwritten, replicas: self.server.acks() }
    }

    fn ask_replicas(&mut self) -> bool {
        self.writes != Writes::Paused
    }
}

pub(super) fn number(place: &LockId) -> Lock {
    KEYS.iter().position(|key| **key == *place.key).unwrap()
}

/// The client of a running command.
pub(super) struct Client {
    pub(super) conn: Conn,
    pub(super) id: u64,
    /// The request for which the client has been blocked.
    pub(super) blocked: Option<RequestId>,
    pub(super) limits: WaitLimits,
}

impl Caller<Turn<'_>> for Client {
    fn id(&self) -> u64 {
        self.id
    }

    fn may_block(&self) -> bool {
        true
    }

    fn limits(&self) -> WaitLimits {
        self.limits
    }

    fn block(&mut self, _site: &Turn<'_>, request: RequestId) -> Option<RequestId> {
        self.blocked = Some(request);
        Some(request)
    }

    fn holders(&mut self, site: &Turn<'_>, place: &LockId, now: Millis, most: usize) -> Vec<Holder> {
        let lock = site.server.locks[number(place)].as_ref().filter(|(_, until)| Deadline::At(now) <= *until);
        let until = lock.map_or(Deadline::Never, |(_, until)| *until);
        waiting::holders(lock.map(|(value, _)| value), until, now, most)
    }
}
