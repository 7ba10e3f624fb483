//! All that is known between steps: locks, waiters, and what depends on connections. Timers and indexes follow from these. Only this code
//! writes them: for a lock `put`; for a session `move_session` and `set_renewal` (in `session`); for a waiter `add`, `remove`, `set_stage`
//! and `end_by` (in `stages`). A demotion drops most of them (`demoted`).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::num::{NonZero, NonZeroU64};

use super::budget::{Budget, CHANGE, scan};
use super::connections::{Connections, Dependent};
use super::lock_id::{LockId, LockRef};
use super::lock_state::{HeldSince, Listener, LockState};
use super::locks::Locks;
use super::message::{Message, MessageKind};
use super::notices::{Notice, Notices};
use super::observers::Observers;
use super::queue::RequestId;
use super::replication::Replication;
use super::waiter::{Queued, Stage, Waiter};
use crate::lock::{Fence, Millis};

/// How many rows of unused indexes a unit of work frees.
const ROWS: usize = 8;

/// What a step leaves to do at other locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum After {
    /// One of the waiter's grants has ended before the waiter was told, so the waiter gets none.
    Untold,
    /// The place has claimed its grants.
    Claimed,
    /// The place's connection has closed.
    GivenUp,
}

/// A walk through all locks of a database, because something has happened to all its keys; `None`: of all databases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(Hash))]
pub(super) struct Sweep {
    pub(super) db: Option<i32>,
    /// The locks before this one have not been visited.
    pub(super) cursor: usize,
    /// Whether something has happened again, so that the walk begins anew when it ends.
    pub(super) again: bool,
}

/// Rows of indexes that nobody uses any more. To free many at once would take long. As the rows mean nothing, a copy has none.
#[derive(Default)]
pub(super) struct Unused(Vec<Box<dyn Iterator<Item = ()> + Send + Sync>>);

impl fmt::Debug for Unused {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_list().finish_non_exhaustive()
    }
}

#[cfg(test)]
impl Clone for Unused {
    fn clone(&self) -> Self {
        Self::default()
    }
}

#[cfg(test)]
impl PartialEq for Unused {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

#[cfg(test)]
impl Eq for Unused {}

impl Unused {
    pub(super) fn add<T: Send + Sync + 'static>(&mut self, rows: BTreeSet<T>) {
        if !rows.is_empty() {
            self.0.push(Box::new(rows.into_iter().map(drop)));
        }
    }

    /// Frees some rows. Returns whether there were any.
    pub(super) fn free_some(&mut self) -> bool {
        let Some(rows) = self.0.last_mut() else { return false };
        if rows.take(ROWS).count() < ROWS {
            self.0.pop();
        }
        true
    }
}

#[derive(Debug)]
#[cfg_attr(test, derive(Clone, PartialEq, Eq))]
pub struct Table<C> {
    pub(super) locks: Option<Locks<LockState>>,
    pub(super) waiters: BTreeMap<RequestId, Waiter<C>>,
    pub(super) queued: Queued,
    pub(super) connections: Connections,
    pub replication: Replication,
    /// When timers look at locks, other than for sessions. Locks that are to be looked at once have negative times, in the order in which
    /// this became known.
    pub(super) wakes: BTreeSet<(Millis, LockId)>,
    pub(super) last_at_once: Millis,
    /// When timers look at locks for sessions. These looks do not wait for the others.
    pub(super) renewals: BTreeSet<(Millis, LockId)>,
    /// The locks with waiters, by `HeldSince`.
    pub(super) held_since: BTreeSet<(NonZero<Millis>, LockId)>,
    pub(super) timeouts: BTreeSet<(Millis, RequestId)>,
    /// The waiters for several locks that may be able to have them all.
    pub(super) tries: BTreeSet<RequestId>,
    pub(super) outgoing: Notices,
    /// The clients that were told of grants in this turn, which may not have reached them.
    pub(super) sent: Vec<(u64, RequestId)>,
    pub(super) after: Vec<(RequestId, After)>,
    pub(super) sweeps: Vec<Sweep>,
    /// The lock whose value was last removed by something other than the module, and its holds of which no client knew.
    pub(super) strays: Option<(LockId, Vec<(Fence, u32)>)>,
    /// The locks of this server's earlier times as a primary, which are dropped little by little.
    pub(super) earlier: Vec<Locks<LockState>>,
    pub(super) unused: Unused,
    /// Each command, and each turn of timers, begins a turn.
    pub budget: Budget,
    /// Until when the data set must not change. The server's cron sets this to 0, in case the clock has been set back.
    pub paused_until: Millis,
    pub(super) last_request: NonZeroU64,
    pub(super) last_tried: RequestId,
    pub(super) next_kind: u8,
    pub(super) observers: Observers,
}

impl<C: Copy> Table<C> {
    pub const fn new() -> Self {
        Self {
            locks: None,
            waiters: BTreeMap::new(),
            queued: Queued::new(),
            connections: Connections::new(),
            replication: Replication::new(),
            wakes: BTreeSet::new(),
            last_at_once: Millis::MIN,
            renewals: BTreeSet::new(),
            held_since: BTreeSet::new(),
            timeouts: BTreeSet::new(),
            tries: BTreeSet::new(),
            outgoing: Notices::new(),
            sent: Vec::new(),
            after: Vec::new(),
            sweeps: Vec::new(),
            strays: None,
            earlier: Vec::new(),
            unused: Unused(Vec::new()),
            budget: Budget::new(),
            paused_until: 0,
            last_request: NonZeroU64::MIN,
            last_tried: RequestId::MIN,
            next_kind: 0,
            observers: Observers::new(),
        }
    }

    /// A command begins, or a turn of timers.
    #[inline(always)]
    pub fn begin_turn(&mut self) {
        self.budget.begin_turn();
        if self.strays.is_some() {
            // Only the command that removed the value moves it to another key.
            self.strays = None;
        }
    }

    /// Whether nothing is known of any lock.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.locks.as_ref().is_none_or(|locks| locks.len() == 0)
    }

    pub fn get(&self, at: LockRef<'_>) -> Option<&LockState> {
        self.locks.as_ref()?.get(at).map(|(_, lock)| lock)
    }

    /// Whether anything is known of a lock.
    #[inline]
    pub fn knows(&self, at: LockRef<'_>) -> bool {
        self.locks.as_ref().is_some_and(|locks| locks.has(at))
    }

    /// Moves the state of a lock out of the table for a step, to `lock`, which is new.
    #[inline]
    pub(super) fn take(&mut self, at: LockRef<'_>, lock: &mut LockState) {
        let recheck = !self.sweeps.is_empty() && self.is_swept(at);
        if let Some((_, known)) = self.locks.as_mut().and_then(|locks| locks.get_mut(at)) {
            std::mem::swap(known, lock);
            (known.wake, known.held_since, known.renew) = (lock.wake, lock.held_since, lock.renew);
        }
        lock.recheck |= recheck;
    }

    /// Returns the id of a lock, of which all that knows the lock shares one copy. Adds the lock to the table if it is not there.
    pub(super) fn intern(&mut self, at: LockRef<'_>) -> LockId {
        let locks = self.locks.get_or_insert_default();
        if let Some((id, _)) = locks.get(at) {
            return id.clone();
        }
        let id = at.to_id();
        locks.insert(id.clone(), Box::new(LockState::new()));
        id
    }

    /// Moves the state of a lock back. Has holders told that somebody waits.
    pub(super) fn put(&mut self, at: LockRef<'_>, lock: &mut LockState) {
        let locks = self.locks.get_or_insert_default();
        let position = match locks.position(at) {
            Some(position) => position,
            None if lock.is_empty() => return,
            None => locks.insert(at.to_id(), Box::new(LockState::new())),
        };
        let Some((id, known)) = locks.at_mut(position) else { return };
        lock.wake = lock.wake.filter(|_| !lock.is_empty());
        // If a timer is to look at the lock at once, holders get news of the queue only afterwards: the look may change who is to be told.
        let is_quiet = lock.queue.is_empty() || lock.wake.is_none_or(|wake| wake > 0);
        if lock.listening > 0 && lock.has_news() && is_quiet {
            self.budget.spend(scan(lock.records().len()));
            lock.news().into_iter().for_each(|fence| self.outgoing.push(Notice::Wanted(id.clone(), fence)));
        }
        if lock.wake == Some(0) {
            self.last_at_once += 1;
            lock.wake = known.wake.filter(|wake| *wake < 0).or(Some(self.last_at_once));
        }
        // If the server has refused a look, `wake` says when to try again, which is later than what was due.
        let renew = lock.wake.and_then(|wake| Some(lock.first_due()?.0.max(wake)));
        lock.renew = renew.filter(|time| *time > 0).and_then(NonZero::new);
        if known.renew != lock.renew {
            known.renew.map(|time| self.renewals.remove(&(time.get(), id.clone())));
            lock.renew.map(|time| self.renewals.insert((time.get(), id.clone())));
        }
        let (before, wake) = (known.other_wake(), lock.other_wake());
        if before != wake {
            before.map(|wake| self.wakes.remove(&(wake, id.clone())));
            wake.map(|wake| self.wakes.insert((wake, id.clone())));
        }
        if lock.queue.is_empty() {
            lock.held_since = HeldSince(None);
        }
        if known.held_since.0 != lock.held_since.0 {
            known.held_since.0.map(|since| self.held_since.remove(&(since, id.clone())));
            lock.held_since.0.map(|since| self.held_since.insert((since, id.clone())));
        }
        if lock.is_empty() {
            locks.remove(position);
        } else {
            std::mem::swap(known, lock);
        }
    }

    /// Changes what is known of a lock between steps. If there is a `wake`, a timer looks at the lock then (0: at once).
    pub(super) fn change<R>(
        &mut self,
        at: LockRef<'_>,
        wake: Option<Millis>,
        body: impl FnOnce(&mut Self, &mut LockState) -> R,
    ) -> R {
        let mut lock = LockState::new();
        self.take(at, &mut lock);
        let recheck = lock.recheck;
        let result = body(self, &mut lock);
        lock.wake = wake.or(if lock.recheck && !recheck { Some(0) } else { lock.wake });
        self.put(at, &mut lock);
        result
    }

    /// Sets the timer of a lock. If a look was due at once, the later look checks the same (`recheck`).
    pub(super) fn wake_by(&mut self, id: &LockId, time: Option<Millis>) {
        let mut lock = LockState::new();
        self.take(id.to_ref(), &mut lock);
        lock.recheck |= lock.wake.is_some_and(|wake| wake < 0);
        lock.wake = time;
        self.put(id.to_ref(), &mut lock);
    }

    /// Whether a client was told of a grant in this turn.
    pub fn has_sent(&self, connection: u64) -> bool {
        self.sent.iter().any(|sent| sent.0 == connection)
    }

    /// A connection has closed. `is_lost`: the server has not sent the reply that the module made in this turn. Timers end the connection's
    /// sessions and places. Returns whether anything is due.
    pub fn closed(&mut self, connection: u64, is_lost: bool) -> bool {
        let sent: Vec<_> = self.sent.extract_if(.., |sent| sent.0 == connection).collect();
        for (_, request) in &sent {
            if is_lost {
                self.depart(*request);
            }
            self.forget(*request);
        }
        self.connections.close(connection) || !sent.is_empty()
    }

    /// Ends the next session or place of a connection that has closed.
    pub(super) fn end_next_dependent(&mut self) -> bool {
        match self.connections.next_of_closed() {
            Some(Dependent::Place(request)) => self.give_up(request),
            Some(Dependent::Session(id, fence)) => {
                self.change(id.to_ref(), Some(0), |table, lock| table.mark_closed(&id, lock, fence));
            }
            None => return false,
        }
        true
    }

    /// Drops what is known of a grant that has ended. If the holder knew of the grant, it gets a message of this `kind`.
    pub(super) fn ended(
        &mut self,
        at: LockRef<'_>,
        lock: &mut LockState,
        fence: Fence,
        kind: Option<fn(Fence) -> MessageKind>,
    ) {
        if lock.record(fence).is_some_and(|record| record.session.is_some()) {
            self.set_session(at, lock, fence, None);
        }
        let Some(record) = lock.take(fence) else { return };
        let (to_claim, mut told) = (record.claims() > 0, false);
        for hold in &record.pending {
            let Some(waiter) = self.waiters.get_mut(&hold.request) else { continue };
            let is_alone = waiter.locks.all().len() == 1;
            if let Stage::Answered(_) | Stage::Unconfirmed(_) = waiter.stage {
                // If the waiter is about to be told of this grant only, `tell` finds that the grant has ended.
                let is_told = is_alone && matches!(waiter.stage, Stage::Answered(_));
                self.after.extend((!is_told).then_some((hold.request, After::Untold)));
            } else if hold.to_claim {
                told = true;
                waiter.locks.at_mut(at).into_iter().for_each(|lock| lock.got = None);
                if waiter.locks.all().iter().all(|lock| lock.got.is_none()) {
                    self.remove(hold.request);
                }
            }
        }
        if let (Some(listener), Some(kind)) = (record.listener, kind)
            && (listener.knows || told || !to_claim)
        {
            let Listener { owner, channel, .. } = *listener;
            let message = Message { channel, kind: kind(fence), owner };
            self.outgoing.push(Notice::Message(message));
        }
    }

    /// Does what a step has left to do at other locks.
    pub(super) fn end_step(&mut self) {
        while let Some((request, after)) = self.after.pop() {
            // A claim is the command's own work, which is not counted.
            self.budget.spend(if after == After::Claimed { 0 } else { CHANGE });
            match after {
                After::Untold => self.untell(request),
                After::Claimed => {
                    for (id, fence) in self.granted(request) {
                        self.change(id.to_ref(), None, |_, lock| {
                            lock.change(fence, |record| {
                                record.remove(request);
                                record.note_known();
                            });
                        });
                    }
                    self.remove(request);
                }
                After::GivenUp => self.give_up(request),
            }
        }
    }

    /// Whether anybody is to hear that the lock is lost.
    pub fn is_watched(&self, at: LockRef<'_>) -> bool {
        self.get(at).is_some_and(|lock| !lock.queue.is_empty() || lock.listening > 0)
    }

    pub fn has_answered(&self) -> bool {
        !self.outgoing.is_empty()
    }

    /// When the next work is due.
    pub fn next_due(&self) -> Option<Millis> {
        let at_once = !self.connections.closed.is_empty()
            || !self.sweeps.is_empty()
            || !self.earlier.is_empty()
            || !self.unused.0.is_empty();
        let tries = (!self.tries.is_empty()).then_some(self.paused_until);
        let wakes = self.wakes.first().into_iter().chain(self.renewals.first());
        let wake = wakes.map(|(time, _)| *time.max(&self.paused_until)).min();
        let timeout = self.timeouts.first().map(|(time, _)| *time);
        at_once.then_some(0).into_iter().chain(wake).chain(tries).chain(timeout).min()
    }
}
