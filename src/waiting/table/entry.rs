//! One lock: its queue, its sessions, and the grants of waiters that are not told yet.

use std::collections::BTreeSet;

use super::grant_record::GrantRecord;
use super::grants::GrantRecords;
use super::outgoing::Message;
use super::pending::PendingHold;
use super::queue::{Queue, RequestId};
use super::timers::LockTimers;
use crate::lock::{Fence, Owner};

/// All that is known of one lock beside its key. Grants are told apart by their fences: no two grants of a lock have the same fence.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone, PartialEq, Eq, Hash))]
pub(crate) struct LockEntry {
    pub(super) queue: Queue,
    pub(super) grants: GrantRecords,
    pub(super) timers: LockTimers,
    /// The number of locks that all places waited for that have not claimed their grants of this lock.
    pub(super) unclaimed_locks: u32,
    /// A re-entry has been put off until some of these grants are claimed.
    pub(super) put_off: bool,
    /// Holders are to be told that somebody waits.
    pub(super) wanted: bool,
    /// The holder whose waiters stand in front of all others, since they want less room than its grant has.
    pub(super) upgrader: Option<Box<Upgrader>>,
    /// Somebody else may have changed the lock, so all that is known of it is to be compared with its key.
    pub(super) recheck: bool,
}

/// The owner of a grant waits to have the grant with less room.
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
    /// Grants whose leases ended while this server stood still.
    pub(crate) expired: bool,
    /// A grant whose waiter went away.
    pub(crate) undeliverable: bool,
    pub(crate) session: bool,
    /// All sessions, not only those of connections that have closed.
    pub(crate) sessions: bool,
    /// A grant whose holder hears what becomes of it.
    pub(crate) watched: bool,
    /// Whether all grants of which something is known are still there.
    pub(crate) records: bool,
    /// All that is known of the lock is to be compared with its key.
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

    /// Whether nothing is left of it.
    pub(super) fn is_over(&self) -> bool {
        self.queue.is_empty() && self.grants.is_empty()
    }

    /// Whether somebody is to hear of a lapse, since they wait or hold the lock.
    pub(crate) fn is_watched(&self) -> bool {
        !self.queue.is_empty() || self.grants.counts().listeners > 0
    }

    /// How many wait.
    pub(crate) fn waiters(&self) -> usize {
        self.queue.len()
    }

    /// The first waiter. Waiters of an upgrader stand in front.
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

    /// The holder, by its fence, whose waiters stand in front, since they want less room than its grant has.
    pub(crate) fn upgrader(&self) -> Option<Fence> {
        self.upgrader.as_ref().map(|upgrader| upgrader.fence)
    }

    /// Puts a waiter of this holder in front until the waiter has what it waits for, or the grant has ended.
    pub(crate) fn upgrade_first(&mut self, fence: Fence, request: RequestId) {
        match &mut self.upgrader {
            Some(upgrader) if upgrader.fence == fence => _ = upgrader.requests.insert(request),
            other => *other = Some(Box::new(Upgrader { fence, requests: BTreeSet::from([request]) })),
        }
    }

    /// Nobody stands in front any more.
    pub(crate) fn end_upgrade(&mut self) {
        self.upgrader = None;
    }

    /// When the lock is looked at next, all that is known of it is compared with its key.
    pub(crate) fn recheck_next(&mut self) {
        self.recheck = true;
    }

    /// The parts that are to be settled, in the step that does it. `renewal`: whether a session is to be renewed.
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

    /// A waiter leaves the queue. The queue that forms next is told of anew.
    pub(super) fn leave(&mut self, request: RequestId, owner: &Owner<'static>) {
        self.queue.leave(request, owner);
        self.withdraw_upgrade(request);
        if self.queue.is_empty() && self.grants.counts().listeners > 0 {
            self.grants.change_all(|record| {
                record.listener.iter_mut().for_each(|listener| listener.told = false);
            });
        }
    }

    /// Whether the holders are to be told that somebody waits, and have not been: once for each queue that forms behind them.
    pub(super) fn want(&mut self) -> bool {
        let tell = !self.wanted && !self.queue.is_empty() && self.grants.counts().uninformed > 0;
        self.wanted |= tell;
        tell
    }

    /// The message to the next holder that somebody waits, unless the queue has dissolved meanwhile. Where `wanted` is left, others are
    /// told after it.
    pub(super) fn next_wanted(&mut self) -> Option<Message> {
        self.wanted = false;
        if self.queue.is_empty() {
            return None;
        }
        let message = self.grants.inform_next()?;
        self.wanted = self.grants.counts().uninformed > 0;
        Some(message)
    }

    /// Whether a place may be given a grant that its owner has already. It may not while the places of this lock have grants for `most`
    /// locks to claim. (One claim is for all that an owner has been given of a lock.) If not, the place is tried again when some of these
    /// grants are claimed.
    pub(crate) fn may_be_given(&mut self, most: u32) -> bool {
        let full = self.unclaimed_locks >= most;
        self.put_off |= full;
        !full
    }

    /// A waiter that stood in front does so no more.
    pub(super) fn withdraw_upgrade(&mut self, request: RequestId) {
        if let Some(upgrader) = &mut self.upgrader {
            upgrader.requests.remove(&request);
        }
        self.upgrader.take_if(|upgrader| upgrader.requests.is_empty());
    }

    /// A waiter has been given this grant.
    pub(super) fn add_pending(&mut self, fence: Fence, hold: PendingHold) {
        if hold.to_claim {
            self.unclaimed_locks += hold.locks;
        }
        self.grants.open(fence, |record| record.pending.add(hold));
    }

    /// A waiter has been told of this grant, or has claimed it.
    pub(super) fn remove_pending(&mut self, fence: Fence, request: RequestId) -> Option<PendingHold> {
        let hold = self.grants.change(fence, |record| record.pending.remove(request)).flatten()?;
        self.pending_removed(&hold);
        Some(hold)
    }

    /// A waiter that has been given this grant is gone.
    pub(super) fn lose_pending(&mut self, fence: Fence, request: RequestId) {
        let hold = self.grants.change(fence, |record| record.lose_pending(request)).flatten();
        hold.iter().for_each(|hold| self.pending_removed(hold));
    }

    /// A grant has ended. Returns what was known of it.
    pub(super) fn end_grant(&mut self, fence: Fence) -> Option<GrantRecord> {
        self.upgrader.take_if(|upgrader| upgrader.fence == fence);
        let record = self.grants.end(fence)?;
        record.pending.iter().for_each(|hold| self.pending_removed(hold));
        Some(record)
    }

    /// A hold is not pending any more: claimed, given up, or over with its grant. A re-entry that was put off until then is looked at again.
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
        self.grants.check();
        let in_front = self.upgrader.iter().flat_map(|upgrader| &upgrader.requests);
        assert!(in_front.into_iter().all(|request| self.queue.iter().any(|other| other == *request)));
        let pending = self.grants.iter().flat_map(|record| record.pending.iter());
        let unclaimed: u32 = pending.filter(|hold| hold.to_claim).map(|hold| hold.locks).sum();
        assert_eq!(unclaimed, self.unclaimed_locks);
    }
}

/// There is one for each lock that is waited for, or kept alive. Allocators step from 256 bytes to 320.
const _: () = assert!(size_of::<LockEntry>() <= 256);
