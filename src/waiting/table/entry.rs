//! The entry of one lock: its queue, and records of its grants.

use std::collections::BTreeSet;

use super::grant_record::GrantRecord;
use super::grants::GrantRecords;
use super::outgoing::Message;
use super::pending::PendingHold;
use super::queue::{Queue, RequestId};
use super::timers::LockTimers;
use crate::lock::{Fence, Owner};

/// All that is known of one lock beside its key. Grants are identified by their fences: no two grants of a lock have the same fence.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone, PartialEq, Eq, Hash))]
pub(crate) struct LockEntry {
    pub(super) queue: Queue,
    pub(super) grants: GrantRecords,
    pub(super) timers: LockTimers,
    /// How many locks the places that still have to claim a grant of this lock wait for, in all.
    pub(super) unclaimed_locks: u32,
    /// A re-entry has been put off until some of these grants are claimed.
    pub(super) put_off: bool,
    /// Holders are to be told that somebody waits.
    pub(super) wanted: bool,
    /// The holder whose waiters go ahead of all others, since they want less room than its grant has.
    pub(super) upgrader: Option<Box<Upgrader>>,
    /// Somebody else may have changed the lock, so all that is known of it is to be compared with its key.
    pub(super) recheck: bool,
}

/// A holder that waits to reduce the room of its grant.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone, PartialEq, Eq, Hash))]
pub(super) struct Upgrader {
    pub(super) fence: Fence,
    /// The owner's waiters that want less room.
    pub(super) requests: BTreeSet<RequestId>,
}

/// The parts of a lock that are to be settled.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Unsettled {
    /// There are grants whose leases ended during a freeze.
    pub(crate) expired: bool,
    /// There is a hold whose waiter went away before it was told.
    pub(crate) undeliverable: bool,
    pub(crate) session: bool,
    /// Look at all sessions, not only at those of connections that have closed.
    pub(crate) sessions: bool,
    /// There is a holder that hears what becomes of its grant.
    pub(crate) watched: bool,
    /// Check whether all grants of which something is known are still there.
    pub(crate) records: bool,
    /// Compare all that is known of the lock with its key.
    pub(crate) recheck: bool,
}

impl Default for LockEntry {
    fn default() -> Self {
        Self::new()
    }
}

impl LockEntry {
    pub(super) const fn new() -> Self {
        Self {
            queue: Queue::new(),
            grants: GrantRecords::new(),
            timers: LockTimers::new(),
            unclaimed_locks: 0,
            put_off: false,
            wanted: false,
            upgrader: None,
            recheck: false,
        }
    }

    /// Whether the entry has nothing left, and can be dropped.
    pub(super) fn is_over(&self) -> bool {
        self.queue.is_empty() && self.grants.is_empty()
    }

    /// Whether somebody, a waiter or a holder, is to hear of a lapse.
    pub(crate) fn is_watched(&self) -> bool {
        !self.queue.is_empty() || self.grants.counts().listeners > 0
    }

    /// The number of waiters.
    pub(crate) fn waiters(&self) -> usize {
        self.queue.len()
    }

    /// The first waiter. The upgrader's waiters come before all others.
    pub(super) fn head(&self) -> Option<RequestId> {
        let first = |upgrader: &Upgrader| upgrader.requests.first().copied();
        self.upgrader.as_deref().and_then(first).or_else(|| self.queue.head())
    }

    /// All waiters, in the order in which they are served.
    pub(super) fn in_order(&self) -> impl Iterator<Item = RequestId> {
        let first = self.upgrader.as_deref().map(|upgrader| &upgrader.requests);
        let is_first = move |request: &RequestId| first.is_some_and(|first| first.contains(request));
        first
            .into_iter()
            .flatten()
            .copied()
            .chain(self.queue.iter().filter(move |request| !is_first(request)))
    }

    /// The grant, by its fence, of the holder whose waiters go ahead of all others, since they want less room than it has.
    pub(crate) fn upgrader(&self) -> Option<Fence> {
        self.upgrader.as_ref().map(|upgrader| upgrader.fence)
    }

    /// Puts a waiter of this holder ahead of the queue, until it has what it waits for, or the grant has ended.
    pub(crate) fn upgrade_first(&mut self, fence: Fence, request: RequestId) {
        match &mut self.upgrader {
            Some(upgrader) if upgrader.fence == fence => _ = upgrader.requests.insert(request),
            other => *other = Some(Box::new(Upgrader { fence, requests: BTreeSet::from([request]) })),
        }
    }

    /// Ends the upgrade: no waiter goes ahead of the queue any more, and all are served in order of arrival.
    pub(crate) fn end_upgrade(&mut self) {
        self.upgrader = None;
    }

    /// Has all that is known of the lock compared with its key at the next look.
    pub(crate) fn recheck_next(&mut self) {
        self.recheck = true;
    }

    /// Returns the parts that are to be settled. `recheck` is cleared, so the caller has to settle them. `renewal`: whether a session is
    /// due to be renewed.
    pub(super) fn take_up(&mut self, renewal: bool) -> Unsettled {
        let (recheck, counts) = (std::mem::take(&mut self.recheck), self.grants.counts());
        Unsettled {
            expired: counts.expired > 0,
            undeliverable: counts.undeliverable > 0,
            session: counts.sessions > 0,
            sessions: recheck || renewal,
            watched: counts.listeners > 0,
            records: recheck || self.grants.len() == 1,
            recheck,
        }
    }

    /// Takes a waiter out of the queue. Holders will be told again when the next queue forms.
    pub(super) fn leave(&mut self, request: RequestId, owner: &Owner<'static>) {
        self.queue.leave(request, owner);
        self.withdraw_upgrade(request);
        if self.queue.is_empty() && self.grants.counts().listeners > 0 {
            self.grants.change_all(|record| {
                record.listener.iter_mut().for_each(|listener| listener.told = false);
            });
        }
    }

    /// Notes that holders are to be told that somebody waits, unless this has been noted already, or no holder is left to be told. Returns
    /// whether it was noted now.
    pub(super) fn want(&mut self) -> bool {
        let tell = !self.wanted && !self.queue.is_empty() && self.grants.counts().uninformed > 0;
        self.wanted |= tell;
        tell
    }

    /// The message to the next holder that somebody waits; `None` if the queue is empty by now. If `wanted` is still set afterwards, more
    /// holders are to be told.
    pub(super) fn next_wanted(&mut self) -> Option<Message> {
        self.wanted = false;
        if self.queue.is_empty() {
            return None;
        }
        let message = self.grants.inform_next()?;
        self.wanted = self.grants.counts().uninformed > 0;
        Some(message)
    }

    /// Whether a place may be given a grant that its owner has already. It may not if the places that still have to claim a grant of this
    /// lock wait for `most` locks or more in all. (One claim covers everything that an owner has been given of a lock.) In that case the
    /// place is tried again when some of these grants have been claimed.
    pub(crate) fn may_be_given(&mut self, most: u32) -> bool {
        let full = self.unclaimed_locks >= most;
        self.put_off |= full;
        !full
    }

    /// Ends a waiter's privilege to go ahead of the queue, if it had that.
    pub(super) fn withdraw_upgrade(&mut self, request: RequestId) {
        if let Some(upgrader) = &mut self.upgrader {
            upgrader.requests.remove(&request);
        }
        self.upgrader.take_if(|upgrader| upgrader.requests.is_empty());
    }

    /// Notes a hold that a waiter has been given, and has not been told of or claimed.
    pub(super) fn add_pending(&mut self, fence: Fence, hold: PendingHold) {
        if hold.to_claim {
            self.unclaimed_locks += hold.locks;
        }
        self.grants.open(fence, |record| record.pending.add(hold));
    }

    /// Removes the pending hold of a waiter that has been told of it, or has claimed it.
    pub(super) fn remove_pending(&mut self, fence: Fence, request: RequestId) -> Option<PendingHold> {
        let hold = self.grants.change(fence, |record| record.pending.remove(request)).flatten()?;
        self.pending_removed(&hold);
        Some(hold)
    }

    /// Removes the pending hold of a waiter that is gone.
    pub(super) fn lose_pending(&mut self, fence: Fence, request: RequestId) {
        let hold = self.grants.change(fence, |record| record.lose_pending(request)).flatten();
        hold.iter().for_each(|hold| self.pending_removed(hold));
    }

    /// Drops what is known of a grant that has ended, and returns it.
    pub(super) fn end_grant(&mut self, fence: Fence) -> Option<GrantRecord> {
        self.upgrader.take_if(|upgrader| upgrader.fence == fence);
        let record = self.grants.end(fence)?;
        record.pending.iter().for_each(|hold| self.pending_removed(hold));
        Some(record)
    }

    /// Corrects the count for a hold that is not pending any more: it was claimed or given up, or its grant has ended. If a re-entry was
    /// put off until then, it is tried again.
    fn pending_removed(&mut self, hold: &PendingHold) {
        if hold.to_claim {
            self.unclaimed_locks -= hold.locks;
            self.recheck |= std::mem::take(&mut self.put_off);
        }
    }
}

#[cfg(any(test, debug_assertions))]
impl LockEntry {
    /// The counts beside the records agree with them.
    pub(super) fn check(&self) {
        assert!(!self.is_over());
        self.queue.check();
        self.grants.check();
        let in_front = self.upgrader.iter().flat_map(|upgrader| &upgrader.requests);
        assert!(in_front.into_iter().all(|request| self.queue.iter().any(|other| other == *request)));
        let pending = self.grants.iter().flat_map(|record| record.pending.iter());
        let unclaimed: u32 = pending.filter(|hold| hold.to_claim).map(|hold| hold.locks).sum();
        assert_eq!(unclaimed, self.unclaimed_locks);
    }
}

/// Each lock with waiters or a session has an entry. Above 256 bytes, allocators use blocks of 320.
const _: () = assert!(size_of::<LockEntry>() <= 256);
