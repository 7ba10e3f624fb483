//! The queues, one to a lock: who comes, who is next, who leaves.

use std::collections::BTreeSet;

use super::entry::{LockEntry, Unsettled};
use super::grants::{GrantRecord, GrantRecords, Listener};
use super::outgoing::{Message, MessageKind, Notice};
use super::queue::RequestId;
use super::untold::UntoldHold;
use super::waiter::{Arrival, Phase, RequestedLocks, WaitKind, Waiter, WaiterInfo};
use super::{LockId, LockRef, WaitTable};
use crate::lock::{AcquireRequest, Fence, Millis, Now, Owner};

impl<C: Copy> WaitTable<C> {
    /// What is known of a lock; nothing, if it has no entry.
    pub(crate) fn lock(&self, at: LockRef<'_>) -> &LockEntry {
        static NOTHING: LockEntry = LockEntry::new();
        self.entries.get(at).unwrap_or(&NOTHING)
    }

    /// Changes an entry, where there is one, and drops it if nothing is left of it.
    pub(crate) fn change<R>(&mut self, at: LockRef<'_>, body: impl FnOnce(&mut LockEntry) -> R) -> Option<R> {
        let entry = self.entries.get_mut(at)?;
        let result = body(entry);
        if entry.is_over() {
            self.cancel_timers(at);
            self.entries.remove(at);
        }
        Some(result)
    }

    /// The entry of a lock, made where there is none, and its name, shared with it.
    pub(super) fn open_entry(&mut self, at: LockRef<'_>) -> (LockId, &mut LockEntry) {
        let id = self.entries.id(at).unwrap_or_else(|| at.to_id());
        (id.clone(), self.entries.open(id))
    }

    /// What is to be settled of a lock. It is settled now, so its timers that are due are over.
    pub(crate) fn take_up(&mut self, at: LockRef<'_>, now: Millis) -> Unsettled {
        let Some((id, entry)) = self.entries.get_key_mut(at) else { return Unsettled::default() };
        let renewal = entry.timers.is_renewal_due(now);
        self.timers.cancel_due(&mut entry.timers, id, now);
        let (recheck, counts) = (std::mem::take(&mut entry.recheck), entry.grants.counts());
        Unsettled {
            expired: counts.expired > 0,
            undeliverable: counts.undeliverable > 0,
            session: counts.sessions > 0,
            // One is quickly looked at.
            sessions: recheck || renewal || counts.sessions == 1,
            watched: counts.listeners > 0,
            records: recheck || entry.grants.len() == 1,
            recheck,
        }
    }

    /// Has all that is known of a lock compared with what it is, at that time at the latest; whether there is anything.
    pub(crate) fn recheck_by(&mut self, at: LockRef<'_>, time: Millis) -> bool {
        self.change(at, |entry| entry.recheck_next());
        self.look_by(at, time)
    }

    /// The name of an entry, shared with it.
    pub(super) fn id(&self, at: LockRef<'_>) -> Option<LockId> {
        self.entries.id(at)
    }

    /// The number of a waiter that comes now; never used twice.
    pub(crate) fn next_request(&mut self) -> RequestId {
        self.last_request = self.last_request.saturating_add(1);
        RequestId(self.last_request)
    }

    /// So many of those who wait for a lock: the next one first.
    pub(crate) fn queue_of(&self, at: LockRef<'_>, most: usize, now: Now) -> Vec<WaiterInfo> {
        let requests = self.lock(at).in_order();
        let waiters = requests.filter_map(|request| self.waiters.get(&request));
        waiters.take(most).map(|waiter| WaiterInfo::new(waiter, now)).collect()
    }

    pub(crate) fn join(&mut self, at: LockRef<'_>, request: RequestId, arrival: Arrival<C>) {
        let id = self.enqueue(at, request, &arrival);
        self.enter(RequestedLocks::one(id), request, arrival);
    }

    /// One waiter for several locks: the one of that number keeps it waiting.
    pub(crate) fn join_all(
        &mut self,
        all: &[LockRef<'_>],
        stuck: usize,
        request: RequestId,
        arrival: Arrival<C>,
    ) {
        let ids: Vec<LockId> = all.iter().map(|at| self.enqueue(*at, request, &arrival)).collect();
        self.enter(RequestedLocks::several(ids.into_iter(), stuck), request, arrival);
    }

    /// Puts a waiter into a queue.
    fn enqueue(&mut self, at: LockRef<'_>, request: RequestId, arrival: &Arrival<C>) -> LockId {
        let (id, entry) = self.open_entry(at);
        entry.queue.join(request, arrival.ask.owner.clone());
        self.observers.busiest.count(&id, arrival.since);
        self.tell_wanted(at);
        id
    }

    fn enter(&mut self, locks: RequestedLocks, request: RequestId, arrival: Arrival<C>) {
        match arrival.way {
            WaitKind::Notified(_) => {
                self.connections.add_place(arrival.client_id, request, locks.weight());
                self.owners.add_place(&arrival.ask.owner, &locks, request);
            }
            WaitKind::Blocked(_) => self.connections.block(arrival.client_id, request),
        }
        self.owners.join(&arrival.ask.owner, request, locks.are_several());
        let waiter = Waiter::new(locks, arrival);
        self.timers.set_timeout(request, waiter.ends);
        self.waiters.insert(request, waiter);
        self.queued += 1;
    }

    /// The first waiter of an entry, and what it asks for.
    pub(crate) fn head(&self, at: LockRef<'_>) -> Option<(RequestId, AcquireRequest<'static>)> {
        self.asked(self.lock(at).head()?)
    }

    /// The first waiter of an entry with that owner, behind that one, and what it asks for.
    pub(crate) fn next_of(
        &self,
        at: LockRef<'_>,
        owner: &Owner<'static>,
        seen: Option<RequestId>,
    ) -> Option<(RequestId, AcquireRequest<'static>)> {
        self.asked(self.lock(at).queue.next_of(owner, seen)?)
    }

    /// The owners who wait, each once.
    pub(crate) fn owners_of(&self, at: LockRef<'_>) -> BTreeSet<Owner<'static>> {
        let requests = self.lock(at).queue.iter();
        requests
            .filter_map(|request| self.waiters.get(&request))
            .map(|waiter| waiter.ask.owner.clone())
            .collect()
    }

    /// A grant has ended: what is known of it is over. Its holder, if it hears of it, hears a message of that kind, and nobody has to claim
    /// the grant any more. A place that has nothing else to claim is gone.
    pub(crate) fn end_grant(
        &mut self,
        at: LockRef<'_>,
        fence: Fence,
        kind: Option<fn(Fence) -> MessageKind>,
    ) {
        let Some((id, entry)) = self.entries.get_key_mut(at) else { return };
        if let Some(record) = entry.end_grant(fence) {
            let id = id.clone();
            self.grant_ended(&id, record, kind);
        }
    }

    /// Apart, since nothing hangs on most grants, and a handover ends one.
    #[inline(never)]
    fn grant_ended(&mut self, id: &LockId, record: GrantRecord, kind: Option<fn(Fence) -> MessageKind>) {
        let at = id.to_ref();
        let recheck = self.change(at, |entry| entry.recheck).unwrap_or_default();
        if let Some(session) = record.session {
            self.session_ended(id, &session, record.synced);
        }
        let mut was_to_claim = false;
        for hold in record.untold.iter().filter(|hold| hold.to_claim) {
            was_to_claim = true;
            let Some(waiter) = self.waiters.get_mut(&hold.request) else { continue };
            if let Some(lock) = waiter.locks.at_mut(at) {
                lock.got = None;
            }
            if waiter.locks.all().iter().all(|lock| lock.got.is_none()) {
                self.drop_waiter(hold.request);
            }
        }
        if was_to_claim && recheck {
            self.look_by(at, 0);
        }
        if let (Some(listener), Some(kind)) = (record.listener, kind) {
            let Listener { owner, channel, .. } = *listener;
            self.outgoing.push_back(Notice::Message(Message { channel, kind: kind(record.fence), owner }));
        }
    }

    /// Ends all grants of a lock.
    pub(super) fn end_grants(&mut self, at: LockRef<'_>, kind: fn(Fence) -> MessageKind) {
        let mut seen = None;
        while let Some(fence) = self.lock(at).next_known(seen) {
            seen = Some(fence);
            self.end_grant(at, fence, Some(kind));
        }
        self.change(at, |entry| entry.grants = GrantRecords::new());
    }

    fn asked(&self, request: RequestId) -> Option<(RequestId, AcquireRequest<'static>)> {
        Some((request, self.waiters.get(&request)?.ask.clone()))
    }

    /// The one way out of its queues, for whatever reason; whether the waiter stood in them.
    pub(super) fn leave(&mut self, request: RequestId, next: Phase) -> bool {
        let Some(waiter) = self.waiters.get_mut(&request) else { return false };
        if waiter.phase != Phase::Queued {
            return false;
        }
        waiter.phase = next;
        self.queued -= 1;
        self.observers.ungranted += u64::from(!next.is_granted());
        let locks = waiter.locks.clone();
        let owner = waiter.ask.owner.clone();
        let is_place = waiter.channel().is_some();
        let hold = UntoldHold {
            request,
            locks: locks.all().len() as u32,
            own: true,
            binds: waiter.ask.session,
            to_claim: is_place,
        };
        self.timers.cancel_timeout(request, waiter.ends.take());
        self.timers.cancel_try(request);
        self.owners.leave(&owner, request, locks.are_several());
        if is_place {
            self.owners.remove_place(&owner, &locks, request);
        }
        for lock in locks.all() {
            let granted = lock.fence().filter(|_| next.is_granted());
            self.leave_lock(&lock.id, &owner, hold, granted, locks.are_several());
        }
        true
    }

    fn leave_lock(
        &mut self,
        id: &LockId,
        owner: &Owner<'static>,
        hold: UntoldHold,
        granted: Option<Fence>,
        several: bool,
    ) {
        let (at, request) = (id.to_ref(), hold.request);
        let seen = |entry: &LockEntry| (entry.head() == Some(request), entry.queue.len() == 1);
        let (was_first, is_last) = seen(self.lock(at));
        if is_last {
            self.forget_held(id);
        }
        self.change(at, |entry| {
            entry.queue.leave(request, owner);
            entry.withdraw_upgrade(request);
            if entry.queue.is_empty() && entry.grants.counts().listeners > 0 {
                entry.grants.change_all(|record| {
                    record.listener.iter_mut().for_each(|listener| listener.told = false);
                });
            }
            if let Some(fence) = granted {
                entry.add_untold(fence, hold);
            }
        });
        // There may be room for those behind it; and what it did not get for want of another lock is free.
        let may_fit = |(_, ask): (_, AcquireRequest<'_>)| several || !ask.room.is_exclusive();
        if was_first && granted.is_none() && self.head(at).is_some_and(may_fit) {
            self.look_by(at, 0);
        }
        // A holder's own waiters pass over two of it at most.
        if granted.is_none() && self.lock(at).queue.next_of(owner, Some(request)).is_some() {
            self.recheck_by(at, 0);
        }
    }
}
