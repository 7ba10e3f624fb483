//! All that is known of locks and waiters between steps. Timers and indexes follow from the rows: `put` writes those of a lock, `go_on`
//! those of a waiter, and no other code does.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::num::NonZeroU64;

use foldhash::fast::RandomState;
use indexmap::IndexMap;

use crate::lock::{AcquireRequest, Deadline, Fence, Got, Micros, Millis, Owner, ReentryError};
use crate::waiting::table::Queue;
use crate::waiting::{LockId, LockRef, RequestId};

/// All that is known of one lock beyond what its key says.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone, PartialEq, Eq, Hash))]
pub struct LockState {
    pub(super) queue: Queue,
    /// The grant whose owner waits to have it with less room, and its waiters for this, which go ahead of the queue.
    pub(super) upgrade: Option<Box<(Fence, BTreeSet<RequestId>)>>,
    /// The holds of which their clients may not know, in order of arrival.
    pub(super) pending: Vec<Pending>,
    /// When a timer has to look at the lock.
    pub(super) wake: Option<Millis>,
}

/// A hold of which its client may not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(Hash))]
pub(super) struct Pending {
    pub(super) request: RequestId,
    pub(super) fence: Fence,
    /// Whether the hold is the client's own. With `ONCE`, it may be that of another client of the owner.
    pub(super) own: bool,
    /// Whether the client has gone away, so that the hold has to be taken back.
    pub(super) lost: bool,
}

impl LockState {
    const fn new() -> Self {
        Self { queue: Queue::new(), upgrade: None, pending: Vec::new(), wake: None }
    }

    /// The first waiter. Waiters for an upgrade go ahead.
    pub fn head(&self) -> Option<RequestId> {
        let first = self.upgrade.as_deref().and_then(|(_, requests)| requests.first().copied());
        first.or_else(|| self.queue.head())
    }

    pub(super) fn leave(&mut self, request: RequestId, owner: &Owner<'static>) {
        self.queue.leave(request, owner);
        self.upgrade.take_if(|upgrade| upgrade.1.remove(&request) && upgrade.1.is_empty());
    }

    /// Drops what depends on a grant that has ended.
    pub(super) fn ended(&mut self, fence: Fence) {
        self.pending.retain(|hold| hold.fence != fence);
        self.upgrade.take_if(|upgrade| upgrade.0 == fence);
    }

    /// The owner knows of this grant, so no hold that its other clients share is taken back.
    pub(super) fn share(&mut self, fence: Fence) {
        let same = self.pending.iter_mut().filter(|hold| hold.fence == fence && !hold.lost);
        same.for_each(|hold| hold.own = false);
    }

    /// How many holds of a grant have to be taken back.
    pub(super) fn lost(&self, fence: Fence) -> u32 {
        self.pending.iter().filter(|hold| hold.fence == fence && hold.lost).count() as u32
    }

    /// The client of a hold has gone away. Another client that shares the hold has it from now on.
    fn lose(&mut self, request: RequestId) {
        let Some(number) = self.pending.iter().position(|hold| hold.request == request) else { return };
        let gone = self.pending.remove(number);
        let mut others = self.pending.iter_mut().filter(|hold| !hold.own && hold.fence == gone.fence);
        match others.find(|hold| hold.request > request) {
            _ if !gone.own => (),
            Some(heir) => heir.own = true,
            None => self.pending.insert(number, Pending { lost: true, ..gone }),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.queue.is_empty() && self.pending.is_empty()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(Hash))]
pub enum Answer {
    Granted(Got, Deadline),
    NoReentry(ReentryError),
    Deadlock,
    TimedOut,
}

/// The stages of a waiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(Hash))]
pub(super) enum Phase {
    Queued,
    /// The waiter is to be told.
    Answered(Answer),
    Told(Answer),
    /// The waiter has gone away.
    Left,
}

#[derive(Debug)]
#[cfg_attr(test, derive(Clone, PartialEq, Eq, Hash))]
pub(super) struct Waiter<C> {
    pub(super) id: LockId,
    pub ask: AcquireRequest<'static>,
    /// `None` until the server has blocked the client.
    pub(super) client: Option<C>,
    pub(super) client_id: u64,
    pub(super) since: Micros,
    /// When its time is up.
    pub(super) ends: Option<Millis>,
    pub(super) phase: Phase,
    /// Whether the module unblocked the client, and not an operator.
    pub(super) unblocked: bool,
}

/// The client of a running command.
pub struct Caller {
    pub id: u64,
    pub may_block: bool,
    /// The most waiters of one lock.
    pub most_waiters: Option<usize>,
}

#[derive(Debug)]
#[cfg_attr(test, derive(Clone, PartialEq, Eq))]
pub struct Table<C> {
    pub(super) locks: Option<IndexMap<LockId, Box<LockState>, RandomState>>,
    pub(super) waiters: BTreeMap<RequestId, Waiter<C>>,
    pub(super) wakes: BTreeSet<(Millis, LockId)>,
    pub(super) timeouts: BTreeSet<(Millis, RequestId)>,
    pub(super) outgoing: VecDeque<RequestId>,
    /// The clients that were told of grants in this turn, which may not have reached them.
    pub(super) sent: Vec<(u64, RequestId)>,
    pub(super) last_request: NonZeroU64,
    pub(super) next_kind: u8,
}

impl<C: Copy> Table<C> {
    pub const fn new() -> Self {
        Self {
            locks: None,
            waiters: BTreeMap::new(),
            wakes: BTreeSet::new(),
            timeouts: BTreeSet::new(),
            outgoing: VecDeque::new(),
            sent: Vec::new(),
            last_request: NonZeroU64::MIN,
            next_kind: 0,
        }
    }

    pub fn get(&self, at: LockRef<'_>) -> Option<&LockState> {
        self.locks.as_ref()?.get(&at).map(Box::as_ref)
    }

    /// Takes the state of a lock out of the table for a step.
    #[inline]
    pub(super) fn take(&mut self, at: LockRef<'_>) -> LockState {
        let lock = self.locks.as_mut().and_then(|locks| locks.get_mut(&at));
        lock.map_or(LockState::new(), |lock| {
            std::mem::replace(lock, LockState { wake: lock.wake, ..LockState::new() })
        })
    }

    /// The name of a lock, of which there is more to know from now on.
    pub(super) fn open(&mut self, at: LockRef<'_>) -> LockId {
        let locks = self.locks.get_or_insert_default();
        if let Some((id, _)) = locks.get_key_value(&at) {
            return id.clone();
        }
        let id = at.to_id();
        locks.insert(id.clone(), Box::new(LockState::new()));
        id
    }

    /// Puts the state of a lock back. No other code writes timers of locks.
    pub(super) fn put(&mut self, at: LockRef<'_>, mut lock: LockState) {
        let locks = self.locks.get_or_insert_default();
        let Some((index, id, known)) = locks.get_full_mut(&at) else {
            if !lock.is_empty() {
                let id = at.to_id();
                lock.wake.map(|wake| self.wakes.insert((wake, id.clone())));
                locks.insert(id, Box::new(lock));
            }
            return;
        };
        lock.wake.take_if(|_| lock.queue.is_empty() && lock.pending.is_empty());
        if known.wake != lock.wake {
            known.wake.map(|wake| self.wakes.remove(&(wake, id.clone())));
            lock.wake.map(|wake| self.wakes.insert((wake, id.clone())));
        }
        if lock.is_empty() {
            locks.swap_remove_index(index);
        } else {
            **known = lock;
        }
    }

    /// Changes what is known of a lock between steps. With `look`, a timer then looks at it at once.
    fn change(&mut self, at: LockRef<'_>, look: Option<Millis>, body: impl FnOnce(&mut LockState)) {
        let mut lock = self.take(at);
        body(&mut lock);
        lock.wake = look.or(lock.wake);
        self.put(at, lock);
    }

    /// Something other than the module may have changed the key of a lock.
    pub fn touched(&mut self, at: LockRef<'_>) {
        self.change(at, Some(0), |_| ());
    }

    pub(super) fn wake_by(&mut self, id: &LockId, time: Millis) {
        self.change(id.to_ref(), Some(time), |_| ());
    }

    pub(super) fn next_request(&mut self) -> RequestId {
        self.last_request = self.last_request.saturating_add(1);
        RequestId(self.last_request)
    }

    pub(super) fn add(&mut self, request: RequestId, waiter: Waiter<C>) {
        waiter.ends.map(|ends| self.timeouts.insert((ends, request)));
        self.waiters.insert(request, waiter);
    }

    /// The server has blocked the client of this request.
    pub fn blocked(&mut self, request: RequestId, client: C) {
        if let Some(waiter) = self.waiters.get_mut(&request) {
            waiter.client = Some(client);
        }
    }

    /// Moves a waiter to its next phase. Returns the phase before.
    pub(super) fn go_on(&mut self, request: RequestId, next: Phase) -> Option<Phase> {
        let waiter = self.waiters.get_mut(&request)?;
        waiter.ends.take().map(|ends| self.timeouts.remove(&(ends, request)));
        if let Phase::Answered(_) = next {
            self.outgoing.push_back(request);
        }
        Some(std::mem::replace(&mut waiter.phase, next))
    }

    /// Takes a waiter out of its queue without a grant.
    pub(super) fn leave(&mut self, request: RequestId, next: Phase) -> bool {
        let Some(waiter) = self.waiters.get(&request).filter(|waiter| waiter.phase == Phase::Queued) else {
            return false;
        };
        let (id, owner) = (waiter.id.clone(), waiter.ask.owner.clone());
        self.change(id.to_ref(), None, |lock| {
            lock.leave(request, &owner);
            // There may be room for the waiters behind it.
            lock.wake = if lock.queue.is_empty() { lock.wake } else { Some(0) };
        });
        self.go_on(request, next);
        true
    }

    /// A waiter can't be told anything any more. If it has been granted its lock, a timer takes the hold back.
    pub fn depart(&mut self, request: RequestId) {
        if self.leave(request, Phase::Left) {
            return;
        }
        if let Some(Phase::Answered(Answer::Granted(..)) | Phase::Told(Answer::Granted(..))) =
            self.go_on(request, Phase::Left)
        {
            let Some(waiter) = self.waiters.get(&request) else { return };
            let id = waiter.id.clone();
            self.change(id.to_ref(), Some(0), |lock| lock.lose(request));
        }
    }

    pub(super) fn time_out(&mut self, now: Millis) -> bool {
        let Some(&(_, request)) = self.timeouts.first().filter(|(ends, _)| *ends <= now) else {
            return false;
        };
        self.leave(request, Phase::Answered(Answer::TimedOut))
    }

    /// The next client to unblock.
    pub(super) fn next_answer(&mut self) -> Option<C> {
        loop {
            let request = self.outgoing.pop_front()?;
            if let Some(waiter) = self.waiters.get_mut(&request) {
                waiter.unblocked = matches!(waiter.phase, Phase::Answered(_));
                return waiter.client;
            }
        }
    }

    /// The answer for a waiter that the server has unblocked: what it was granted, with the lease that its grant has now. `held` returns the
    /// holds and the end of the lease of a grant.
    pub fn tell(
        &mut self,
        request: RequestId,
        held: impl FnOnce(&LockId, Fence) -> Option<(u32, Deadline)>,
    ) -> Option<Answer> {
        // An operator has sent the client away.
        self.leave(request, Phase::Answered(Answer::TimedOut));
        let waiter = self.waiters.get(&request)?;
        let Phase::Answered(mut answer) = waiter.phase else { return None };
        if let Answer::Granted(got, until) = &mut answer {
            let lost = self.get(waiter.id.to_ref()).map_or(0, |lock| lock.lost(got.fence));
            let held = held(&waiter.id, got.fence).filter(|(holds, _)| lost < *holds);
            *until = held.map_or(Deadline::At(0), |(_, until)| until);
        }
        if let Answer::Granted(_, Deadline::At(0)) = answer {
            self.depart(request);
        }
        self.go_on(request, Phase::Told(answer));
        Some(answer)
    }

    /// The connection of a waiter that was told of its grant, and whether the module unblocked it.
    pub fn told_client(&self, request: RequestId) -> Option<(u64, bool)> {
        let waiter = self.waiters.get(&request)?;
        matches!(waiter.phase, Phase::Told(Answer::Granted(..)))
            .then_some((waiter.client_id, waiter.unblocked))
    }

    /// The server is done with a blocked client. Whether a reply about a grant was sent shows only at the end of the turn.
    pub fn freed(&mut self, request: RequestId) {
        match self.told_client(request) {
            Some((client, _)) => self.sent.push((client, request)),
            None => self.forget(request),
        }
    }

    /// The replies of this turn have been sent.
    pub fn turn_sent(&mut self) {
        while let Some((_, request)) = self.sent.pop() {
            self.forget(request);
        }
    }

    /// A connection has closed. The replies that were sent to it in this turn are lost.
    pub fn closed(&mut self, client: u64) {
        let lost: Vec<_> = self.sent.extract_if(.., |sent| sent.0 == client).collect();
        for (_, request) in lost {
            self.depart(request);
            self.forget(request);
        }
    }

    /// Drops a waiter with which the server is done. A waiter that was never told has gone away.
    fn forget(&mut self, request: RequestId) {
        let Some(waiter) = self.waiters.get(&request) else { return };
        match waiter.phase {
            Phase::Told(Answer::Granted(got, _)) => {
                let id = waiter.id.clone();
                self.change(id.to_ref(), None, |lock| {
                    let number = lock.pending.iter().position(|hold| hold.request == request && !hold.lost);
                    if number.is_some_and(|number| !lock.pending.remove(number).own) {
                        lock.share(got.fence);
                    }
                });
            }
            Phase::Told(_) => (),
            _ => self.depart(request),
        }
        self.waiters.remove(&request);
    }

    /// When the next work is due.
    pub fn next_due(&self) -> Option<Millis> {
        let wake = self.wakes.first().map(|(time, _)| *time);
        wake.into_iter().chain(self.timeouts.first().map(|(time, _)| *time)).min()
    }
}
